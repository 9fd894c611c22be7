#include "cli/verbs.h"

#include "lib/base/cleanup.h"
#include "lib/base/quote.h"

#include <string.h>

/* The scripts only carry words: what they mean is known to "bcctl __complete" alone. A line that begins with ':' asks
 * the shell for its own completion of files or directories. */
static const char BASH[] =
        "# bash completion for bcctl; as root: bcctl completion bash >/etc/bash_completion.d/bcctl\n"
        "_bcctl() {\n"
        "\tlocal line\n"
        "\tCOMPREPLY=()\n"
        "\twhile IFS= read -r line; do\n"
        "\t\tcase $line in\n"
        "\t\t:file) mapfile -t -O \"${#COMPREPLY[@]}\" COMPREPLY < <(compgen -f -- \"${COMP_WORDS[COMP_CWORD]}\"); compopt -o filenames ;;\n"
        "\t\t:dir) mapfile -t -O \"${#COMPREPLY[@]}\" COMPREPLY < <(compgen -d -- \"${COMP_WORDS[COMP_CWORD]}\"); compopt -o filenames ;;\n"
        "\t\t*) COMPREPLY+=(\"${line%%$'\\t'*}\") ;;\n"
        "\t\tesac\n"
        "\tdone < <(bcctl __complete -- \"${COMP_WORDS[@]:1:COMP_CWORD}\" 2>/dev/null)\n"
        "}\n"
        "complete -F _bcctl bcctl\n";

static const char ZSH[] =
        "#compdef bcctl\n"
        "# zsh completion for bcctl; bcctl completion zsh >/usr/share/zsh/vendor-completions/_bcctl\n"
        "_bcctl() {\n"
        "\tlocal line\n"
        "\tlocal -a found\n"
        "\twhile IFS= read -r line; do\n"
        "\t\tcase $line in\n"
        "\t\t:file) _files ;;\n"
        "\t\t:dir) _files -/ ;;\n"
        "\t\t*) found+=(\"${${line%%$'\\t'*}//:/\\\\:}:${line#*$'\\t'}\") ;;\n"
        "\t\tesac\n"
        "\tdone < <(bcctl __complete -- \"${(@)words[2,CURRENT]}\" 2>/dev/null)\n"
        "\t(( ${#found} )) && _describe 'bcctl' found\n"
        "}\n"
        "if [ \"$funcstack[1]\" = _bcctl ]; then _bcctl \"$@\"; else compdef _bcctl bcctl; fi\n";

static const char FISH[] =
        "# fish completion for bcctl; bcctl completion fish >~/.config/fish/completions/bcctl.fish\n"
        "function __bcctl_complete\n"
        "\tset -l words (commandline -opc) (commandline -ct)\n"
        "\tfor line in (bcctl __complete -- $words[2..-1] 2>/dev/null)\n"
        "\t\tswitch $line\n"
        "\t\t\tcase ':file'\n"
        "\t\t\t\t__fish_complete_path (commandline -ct)\n"
        "\t\t\tcase ':dir'\n"
        "\t\t\t\t__fish_complete_directories (commandline -ct)\n"
        "\t\t\tcase '*'\n"
        "\t\t\t\techo $line\n"
        "\t\tend\n"
        "\tend\n"
        "end\n"
        "complete -c bcctl -f -a '(__bcctl_complete)'\n";

static int run(struct cli *cli, const struct arguments *arguments)
{
	static const struct {
		const char *shell, *script;
	} SCRIPTS[] = { { "bash", BASH }, { "zsh", ZSH }, { "fish", FISH } };

	for (size_t i = 0; i < ARRAY_SIZE(SCRIPTS); i++)
		if (strcmp(arguments->words[0], SCRIPTS[i].shell) == 0) {
			(void)fputs(SCRIPTS[i].script, cli->out);
			return EXIT_OK;
		}
	return cli_usage(
	        cli, "completion is there for bash, zsh and fish, not for '%s'", QUOTED(arguments->words[0]));
}

const struct command verb_completion = {
	.name = "completion",
	.words = "bash|zsh|fish",
	.n_words_min = 1,
	.n_words_max = 1,
	.kind = WORD_SHELL,
	.summary = "Print a script that completes bcctl's words, instance ids too, in a shell",
	.example = "  source <(bcctl completion bash)",
	.run = run,
};
