# What every target of the project has in common, and the three kinds of target it is made of:
#   bc_library(NAME SOURCES... LINK libs...)      a static core, without main.c
#   bc_program(NAME SOURCES... LINK libs...)      an executable that is installed
#   bc_unit_test(NAME SOURCES... LINK libs...)    a cmocka test, run by ctest
include(CMakeParseArguments)
include(GNUInstallDirs)
find_package(PkgConfig REQUIRED)

function(bc_pkg TARGET MODULE)
  pkg_check_modules(${TARGET} REQUIRED IMPORTED_TARGET GLOBAL ${MODULE})
endfunction()
bc_pkg(GRPC grpc)
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
# so that one ctest run can hold the tests of several builds
set(BC_TEST_PREFIX "")
if(BC_SANITIZE MATCHES "address")
  set(BC_TEST_PREFIX "asan.")
elseif(BC_SANITIZE)
  set(BC_TEST_PREFIX "${BC_SANITIZE}.")
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

# TIMEOUT bounds a hang; it is never an expectation of speed. A fuzzing build has fuzzers only.
function(bc_unit_test NAME)
  cmake_parse_arguments(A "" "TIMEOUT" "LINK;LABELS" ${ARGN})
  add_executable(${NAME} ${A_UNPARSED_ARGUMENTS})
  target_link_libraries(${NAME} PRIVATE bc_options PkgConfig::CMOCKA ${A_LINK})
  if(BC_FUZZ)
    set_target_properties(${NAME} PROPERTIES EXCLUDE_FROM_ALL ON)
    return()
  endif()
  add_test(NAME ${BC_TEST_PREFIX}${NAME} COMMAND ${NAME})
  if(NOT A_TIMEOUT)
    set(A_TIMEOUT 120)
  endif()
  set_tests_properties(${BC_TEST_PREFIX}${NAME} PROPERTIES TIMEOUT ${A_TIMEOUT} LABELS "unit;${A_LABELS}")
  if(BC_SANITIZE STREQUAL "thread") # for the daemons that a test starts, too: the first warning is the end of its process
    set_tests_properties(${BC_TEST_PREFIX}${NAME} PROPERTIES
      ENVIRONMENT "TSAN_OPTIONS=suppressions=${CMAKE_SOURCE_DIR}/tests/tsan.supp:halt_on_error=1:exitcode=66")
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
  add_test(NAME ${NAME} COMMAND ${CMAKE_SOURCE_DIR}/tests/fuzz/run $<TARGET_FILE:${NAME}>)
  set_tests_properties(${NAME} PROPERTIES TIMEOUT 300 LABELS "fuzz")
endfunction()
