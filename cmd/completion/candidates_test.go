package completion_test

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/rfsd/rfsd/cmd/completion"
	"github.com/rfsd/rfsd/cmd/config"
)

// commands are some of a program.
func commands() []*cli.Command {
	none := func(*cli.Context) error { return nil }
	with := func(c *cli.Command) *cli.Command { c.Action = none; return c }
	return []*cli.Command{
		with(config.Raw[config.Migrate](cli.Command{Name: "migrate"}, nil)), with(config.Raw[config.Stored](cli.Command{Name: "created"}, nil)),
		with(config.Raw[config.ConfigFile](cli.Command{Name: "start"}, nil)), completion.Command("rfsx"), {Name: "manual", Hidden: true},
		{Name: "snapshot", Subcommands: []*cli.Command{with(config.Raw[config.ShowSnapshot](cli.Command{Name: "show"}, nil)), with(config.Raw[config.Snapshots](cli.Command{Name: "list"}, nil))}},
	}
}

func TestCandidates(t *testing.T) {
	t.Setenv("XDG_RUNTIME_DIR", t.TempDir())
	t.Setenv("TMPDIR", t.TempDir())
	repository, err := filepath.Abs(filepath.Join("..", "..", "testing", "fixtures", "7.10.2-demo"))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, line string // ends with the word at the cursor
		env        string // RFS_REPO_URI
		want       string // candidates; +: among others
	}{
		{"commands", "", "", "completion created migrate snapshot start"},
		{"commands that start alike", "c", "", "completion created"},
		{"commands of a command", "snapshot ", "", "list show"},
		{"no command", "nosuch ", "", ""},
		{"shells", "completion ", "", "bash fish zsh"},
		{"shells that start alike", "completion z", "", "zsh"},
		{"options", "migrate --exp", "", "--export-compression --export-dir"},
		{"an option is given once", "snapshot list --repo-uri=x --repo-u", "", ""},
		{"a list more than once", "migrate --index-allowlist x --index-allow", "", "--index-allowlist"},
		{"help", "migrate --hel", "", "--help --help-all"},
		{"choices", "created --output ", "", "json table text"},
		{"choices after an equals sign", "created --output=j", "", "json"},
		{"a value of no known kind", "migrate --slots ", "", ""},
		{"snapshots", "migrate --repo-uri " + repository + " --snapshot-name ", "", "snap1"},
		{"snapshots after an equals sign", "migrate --repo-uri=" + repository + " --snapshot-name=s", "", "snap1"},
		{"snapshots by the environment", "snapshot show --snapshot-name ", repository, "snap1"},
		{"the line wins", "snapshot show --repo-uri " + repository + " --snapshot-name ", "/nowhere", "snap1"},
		{"other snapshots", "migrate --repo-uri " + repository + " --snapshot-name x", "", ""},
		{"indices", "migrate --repo-uri " + repository + " --snapshot-name snap1 --index-allowlist ", "", "catalogue orders weblogs"},
		{"indices of the last snapshot", "migrate --repo-uri " + repository + " --index-exclude o", "", "orders"},
		{"no repository", "migrate --snapshot-name ", "", ""},
		{"a repository that is not there", "migrate --repo-uri /nowhere --snapshot-name ", "", ""},
		{"a store that does not answer", "created --target-host http://127.0.0.1:1 --session-name ", "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Setenv("RFS_REPO_URI", c.env)
			got := completion.Candidates(t.Context(), commands(), append([]string{"rfsx"}, strings.Split(c.line, " ")...))
			slices.Sort(got)
			if strings.Join(got, " ") != c.want {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
}

// TestBash runs the script in a real bash, with a program that prints its words.
func TestBash(t *testing.T) {
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip("needs bash")
	}
	dir := t.TempDir()
	program := "#!/bin/sh\nprintf '%s\\n' \"$@\" > \"$LINES_OF\"\nprintf '%s\\n' $FOUND\n"
	if err := os.WriteFile(filepath.Join(dir, "rfsx"), []byte(program), 0o700); err != nil {
		t.Fatal(err)
	}
	script := text(t, "bash")
	for _, c := range []struct{ name, line, found, words, replies string }{
		{"a command", "rfsx mi", "migrate", "mi", "migrate"},
		{"nothing yet", "rfsx ", "a b", "", "a b"},
		{"an address", "rfsx x --repo-uri s3://b/p --snapshot-name ", "snap-1 snap-2", "x --repo-uri s3://b/p --snapshot-name ", "snap-1 snap-2"},
		{"after an equals sign", "rfsx x --snapshot-name=sn", "snap-1", "x --snapshot-name=sn", "snap-1"},
		{"a name with a colon", "rfsx x --session-name a:b", "a:bc", "x --session-name a:b", "bc"},
		{"nothing", "rfsx x --slots ", "", "x --slots ", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			lines := filepath.Join(dir, "words")
			cmd := exec.Command(bash, "--norc", "-c", script+"\ncompopt() { :; }\nCOMP_LINE=$1 COMP_POINT=${#1}\n_rfsx\nprintf '%s\\n' \"${COMPREPLY[*]}\"", "bash", c.line)
			cmd.Env = append(os.Environ(), "PATH="+dir+":"+os.Getenv("PATH"), "LINES_OF="+lines, "FOUND="+c.found)
			out, err := cmd.CombinedOutput()
			if err != nil {
				t.Fatalf("%v %s", err, out)
			}
			b, err := os.ReadFile(lines)
			if err != nil {
				t.Fatal(err)
			}
			words := strings.Split(strings.TrimSuffix(string(b), "\n"), "\n")
			if got := strings.Join(words[:len(words)-1], " "); got != c.words || words[len(words)-1] != completion.Option {
				t.Errorf("the words were %q", words)
			}
			if got := strings.Join(strings.Fields(string(out)), " "); got != c.replies {
				t.Errorf("%q", got)
			}
		})
	}
}

// completed prints the line after the tabulator, as an interactive zsh in a terminal completes it: zsh -c SCRIPT SCRIPT-OF-COMPLETION LINE.
const completed = `zmodload zsh/zpty
zpty shell zsh -f -i
zpty -w shell "PS1=; autoload -Uz compinit; compinit -u -D; source $0; show() { print -r -- '<'\$BUFFER'>'; exit }; zle -N show; bindkey '^X' show; print READY''NOW"
zpty -r shell said '*READYNOW*'
zpty -w -n shell $1$'\t\x18'
zpty -r shell said '*<*>*'
print -r -- ${${said##*<}%%>*}
`

// TestZshAndFish runs the scripts in real shells, with a program that prints what completes its last word.
func TestZshAndFish(t *testing.T) {
	dir := t.TempDir()
	program := "#!/bin/sh\nfor word; do [ \"$word\" = " + completion.Option + " ] || last=$word; done\n" +
		"case $last in mi) echo migrate ;; sn | --name=*) echo snap-1 ;; esac\n"
	for name, content := range map[string]string{"rfsx": program, "file-1": "", "script.zsh": text(t, "zsh"), "script.fish": text(t, "fish")} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct{ name, line, word string }{
		{"a command", "rfsx mi", "migrate"},
		{"a value", "rfsx x --name sn", "snap-1"},
		{"after an equals sign", "rfsx x --name=sn", "--name=snap-1"},
		{"a file", "rfsx x --config fil", "file-1"},
		{"a file after an equals sign", "rfsx x --config=fil", "--config=file-1"},
	} {
		for shell, args := range map[string][]string{
			"zsh":  {"-f", "-c", completed, filepath.Join(dir, "script.zsh"), c.line},
			"fish": {"--no-config", "-c", "source script.fish; complete -C '" + c.line + "'"},
		} {
			t.Run(shell+" "+c.name, func(t *testing.T) {
				if _, err := exec.LookPath(shell); err != nil {
					t.Skip("not run: needs " + shell)
				}
				cmd := exec.CommandContext(t.Context(), shell, args...)
				cmd.Dir, cmd.Env = dir, append(os.Environ(), "PATH="+dir+":"+os.Getenv("PATH"), "HOME="+dir)
				out, err := cmd.CombinedOutput()
				words := strings.Fields(string(out))
				if err != nil || len(words) == 0 || words[len(words)-1] != c.word {
					t.Errorf("%v, %q; want %q", err, out, c.word)
				}
			})
		}
	}
}

func text(t *testing.T, shell string) string {
	t.Helper()
	var b strings.Builder
	app := &cli.App{Name: "rfsx", Writer: &b, Commands: []*cli.Command{completion.Command("rfsx")}}
	if err := app.RunContext(t.Context(), []string{"rfsx", "completion", shell}); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestAsked(t *testing.T) {
	if words, ok := completion.Asked([]string{"rfsd", "migrate", "", completion.Option}); !ok || !slices.Equal(words, []string{"rfsd", "migrate", ""}) {
		t.Errorf("%q %t", words, ok)
	}
	if _, ok := completion.Asked([]string{"rfsd", "migrate"}); ok {
		t.Error("no completion")
	}
}

// TestWrite_EndsInTime: a server that accepts and is silent delays a shell for less than two seconds.
func TestWrite_EndsInTime(t *testing.T) {
	var b strings.Builder
	begin := time.Now()
	completion.Write(t.Context(), &b, commands(), []string{"rfsx", "created", "--target-host", "http://" + silent(t), "--session-name", ""})
	if took := time.Since(begin); took > 10*time.Second || b.String() != "" {
		t.Errorf("%s: %q", took, b.String())
	}
}

// silent returns the address of a server that accepts connections and sends nothing.
func silent(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l.Addr().String()
}
