# What every target of the project has in common, and the three kinds of target it is made of:
#   bc_library(NAME SOURCES... LINK libs...)      a static core, without main.c
#   bc_program(NAME SOURCES... LINK libs...)      an executable that is installed
#   bc_suites(NAME SOURCES... LINK libs...)       the cmocka suites of a folder, each run by ctest
include(CMakeParseArguments)
include(GNUInstallDirs)
find_package(PkgConfig REQUIRED)

function(bc_pkg TARGET MODULE)
  pkg_check_modules(${TARGET} REQUIRED IMPORTED_TARGET GLOBAL ${MODULE})
endfunction()
# gRPC core by file name, not through grpc.pc: that names a hundred libraries of abseil's, and what CMake asks of them takes
# six seconds.
find_path(GRPC_INCLUDE grpc/grpc.h REQUIRED)
find_library(GRPC_LIBRARY grpc REQUIRED)
find_library(GPR_LIBRARY gpr REQUIRED)
add_library(bc_grpc INTERFACE)
target_include_directories(bc_grpc SYSTEM INTERFACE ${GRPC_INCLUDE})
target_link_libraries(bc_grpc INTERFACE ${GRPC_LIBRARY} ${GPR_LIBRARY})
bc_pkg(PROTOBUF_C libprotobuf-c)
bc_pkg(SYSTEMD libsystemd)
bc_pkg(CMOCKA cmocka)

add_library(bc_options INTERFACE)
target_compile_definitions(bc_options INTERFACE _GNU_SOURCE BC_VERSION="${PROJECT_VERSION}")
target_include_directories(bc_options INTERFACE ${CMAKE_SOURCE_DIR})
target_compile_options(bc_options INTERFACE
  -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wpointer-arith -Wvla -Wundef
  -Wformat=2 $<$<C_COMPILER_ID:GNU>:-Wno-format-truncation> -Wwrite-strings -Wold-style-definition -Werror -fno-strict-aliasing -fno-common
  $<$<CONFIG:Release>:-D_FORTIFY_SOURCE=3 -fstack-protector-strong -fstack-clash-protection
  -fcf-protection -fPIE>)
target_link_options(bc_options INTERFACE
  $<$<CONFIG:Release>:-Wl,-z,relro,-z,now -Wl,--as-needed>)
if(BC_SANITIZE)
  target_compile_options(bc_options INTERFACE -fsanitize=${BC_SANITIZE} -fno-omit-frame-pointer
    -fno-sanitize-recover=all)
  target_link_options(bc_options INTERFACE -fsanitize=${BC_SANITIZE})
  target_compile_definitions(bc_options INTERFACE BC_SANITIZED=1)
endif()
# so that the same test has another name in each build
set(BC_TEST_PREFIX "")
if(BC_SANITIZE MATCHES "address" AND NOT BC_FUZZ)
  set(BC_TEST_PREFIX "asan.")
elseif(BC_SANITIZE STREQUAL "thread")
  set(BC_TEST_PREFIX "tsan.")
endif()
if(BC_FUZZ)
  target_compile_options(bc_options INTERFACE -fsanitize=fuzzer-no-link)
endif()

function(bc_library NAME)
  cmake_parse_arguments(A "" "" "LINK" ${ARGN})
  add_library(${NAME} STATIC ${A_UNPARSED_ARGUMENTS})
  target_link_libraries(${NAME} PUBLIC bc_options ${A_LINK})
endfunction()

function(bc_program NAME)
  cmake_parse_arguments(A "" "" "LINK" ${ARGN})
  add_executable(${NAME} ${A_UNPARSED_ARGUMENTS})
  target_link_libraries(${NAME} PRIVATE bc_options ${A_LINK})
  if(CMAKE_BUILD_TYPE STREQUAL "Release")
    set_target_properties(${NAME} PROPERTIES POSITION_INDEPENDENT_CODE ON)
    target_link_options(${NAME} PRIVATE -pie)
  endif()
  # daemons are no commands
  if(NAME MATCHES "^bc-")
    install(TARGETS ${NAME} RUNTIME DESTINATION ${CMAKE_INSTALL_LIBEXECDIR}/bcd)
  else()
    install(TARGETS ${NAME} RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
  endif()
endfunction()

# What a test needs decides when tests/check runs it, and what beside it. It is the test's only label:
#   quick    neither daemons nor real timers
#   process  starts processes or has real timers
#   netns    moves frames through network namespaces
#   guest    boots guests
#   host     boots a systemd
#   fuzz, lint
# What starts daemons or guests takes both processors of a small machine, and shares a large one.
#
# bc_test(NAME NEED COMMAND...) None has a time limit of its own: tests/check has one for all. NEED is a label, or
# `timers`: a process test that starts no daemon, and so takes one processor.
function(bc_test NAME NEED)
  add_test(NAME ${BC_TEST_PREFIX}${NAME} COMMAND ${ARGN})
  string(REPLACE timers process label ${NEED})
  if(NOT label MATCHES "^(quick|process|netns|guest|host|fuzz)$")
    message(FATAL_ERROR "${NAME} needs '${NEED}', which no stage of tests/check has")
  endif()
  set_tests_properties(${BC_TEST_PREFIX}${NAME} PROPERTIES LABELS ${label})
  if(NEED MATCHES "process|guest|host")
    set_tests_properties(${BC_TEST_PREFIX}${NAME} PROPERTIES PROCESSORS 2)
  endif()
  # inherited by the daemons that a test starts: the first warning ends its process, and is a file that tests/check finds
  if(BC_SANITIZE STREQUAL "thread")
    set(options suppressions=${CMAKE_SOURCE_DIR}/tests/tsan.supp halt_on_error=1 exitcode=66
      log_path=${CMAKE_BINARY_DIR}/tsan.report)
    list(JOIN options : options)
    bc_test_property(ENVIRONMENT TSAN_OPTIONS=${options} ${NAME})
  endif()
endfunction()

# bc_test_property(PROPERTY VALUE NAMES...) of tests of this folder; lists grow by it
function(bc_test_property PROPERTY VALUE)
  list(TRANSFORM ARGN PREPEND "${BC_TEST_PREFIX}" OUTPUT_VARIABLE tests)
  set_property(TEST ${tests} APPEND PROPERTY ${PROPERTY} "${VALUE}")
endfunction()

# bc_suites(PROGRAM SOURCES... PREFIX p NEED need [BELOW script] [TIMERS|PROCESS|GUEST suites...]... LINK libs...)
# One program for the suites of a folder (tests/harness/suite.h). Each x_test.c is a test p_x_test, or p_test where x
# is p; it needs what NEED says, or the list that it is in. BELOW is a script that runs the program. A
# fuzzing build has fuzzers only.
function(bc_suites PROGRAM)
  cmake_parse_arguments(A "" "PREFIX;NEED;BELOW" "TIMERS;PROCESS;GUEST;LINK" ${ARGN})
  add_executable(${PROGRAM} ${A_UNPARSED_ARGUMENTS})
  target_link_libraries(${PROGRAM} PRIVATE bc_options bc_harness ${A_LINK})
  if(BC_FUZZ)
    set_target_properties(${PROGRAM} PROPERTIES EXCLUDE_FROM_ALL ON)
    return()
  endif()
  list(FILTER A_UNPARSED_ARGUMENTS INCLUDE REGEX "_test\\.c$")
  foreach(source ${A_UNPARSED_ARGUMENTS})
    get_filename_component(suite ${source} NAME_WE)
    set(name ${A_PREFIX}_${suite})
    if(suite STREQUAL "${A_PREFIX}_test")
      set(name ${suite})
    endif()
    set(need ${A_NEED})
    foreach(other TIMERS PROCESS GUEST)
      if(suite IN_LIST A_${other})
        string(TOLOWER ${other} need)
        list(REMOVE_ITEM A_${other} ${suite})
      endif()
    endforeach()
    bc_test(${name} ${need} ${A_BELOW} $<TARGET_FILE:${PROGRAM}> ${suite})
  endforeach()
  if(A_TIMERS OR A_PROCESS OR A_GUEST)
    message(FATAL_ERROR "${PROGRAM} has no suites ${A_TIMERS} ${A_PROCESS} ${A_GUEST}")
  endif()
endfunction()

# A fuzzer over foreign bytes: NAME.c has LLVMFuzzerTestOneInput; its corpus is beside it in corpus/NAME/.
function(bc_fuzzer NAME)
  if(NOT BC_FUZZ)
    return()
  endif()
  cmake_parse_arguments(A "" "" "LINK" ${ARGN})
  add_executable(${NAME} ${A_UNPARSED_ARGUMENTS})
  target_link_libraries(${NAME} PRIVATE bc_options ${A_LINK})
  target_link_options(${NAME} PRIVATE -fsanitize=fuzzer)
  bc_test(${NAME} fuzz ${CMAKE_SOURCE_DIR}/tests/fuzz/run $<TARGET_FILE:${NAME}>)
endfunction()
