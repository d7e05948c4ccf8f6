//go:build unix

package docs_test

import (
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/session/zktest/ensemble"
)

// TestTutorial follows the tutorial in an empty folder: it saves the files of the page,
// types each command into a shell, and compares the output, except for numbers. The
// page's ports are replaced by free ones.
func TestTutorial(t *testing.T) {
	eventstest.NeedsServers(t)
	t.Parallel()
	page := portsOf(t).Replace(read(t, "docs/tutorial.md"))
	steps := regexp.MustCompile("(?s)(?:Save this as `([\\w.]+)`:\n\n)?```(\\w+)\n(.*?)```").FindAllStringSubmatch(page, -1)
	shell, commands, files := newShell(t), 0, 0
	for _, step := range steps {
		switch name, language, text := step[1], step[2], step[3]; {
		case name != "":
			files++
			eventstest.Must(t, os.WriteFile(filepath.Join(shell.dir, "shop", name), []byte(text), 0o600))
		case language == "console":
			for _, entry := range strings.Split("\n"+text, "\n$ ")[1:] {
				commands++
				shell.follow(t, entry)
			}
		default:
			t.Errorf("there is a block of %s that is neither saved nor typed:\n%s", language, text)
		}
	}
	eventstest.Expect(t, commands >= 20 && files >= 2, "only %d commands and %d files", commands, files)
}

// portsOf returns a replacer for the first three digits of the page's ports.
func portsOf(t *testing.T) *strings.Replacer {
	t.Helper()
	var pairs []string
	for _, prefix := range []string{"218", "288", "388"} {
		free := freePrefix(t)
		for _, last := range []string{"1", "2", "3", "$"} {
			pairs = append(pairs, prefix+last, free+last)
		}
	}
	return strings.NewReplacer(pairs...)
}

// freePrefix returns the digits, except the last one, of three free ports. They are below
// the range that operating systems use for outgoing connections.
func freePrefix(t *testing.T) string {
	t.Helper()
	for range 100 {
		prefix, free := 1000+rand.IntN(2200), true
		for last := 1; last <= 3; last++ {
			l, err := net.Listen("tcp", fmt.Sprintf("localhost:%d%d", prefix, last))
			if free = free && err == nil; err == nil {
				l.Close()
			}
		}
		if free {
			return fmt.Sprint(prefix)
		}
	}
	t.Fatal("no three free ports in a row were found")
	return ""
}

// shell is a bash that the test types into.
type shell struct {
	*eventstest.Process

	dir   string
	in    io.Writer
	seen  int // how much of its output was read
	lines int
}

// newShell starts a shell in an empty folder. Cloning the library's address clones this
// repository, and ZOOKEEPER_HOME looks like a release's folder. Processes that the shell
// has started are ended with the test.
func newShell(t *testing.T) *shell {
	t.Helper()
	zookeeper := ensemble.Installed(t)
	release := filepath.Join(t.TempDir(), "zookeeper")
	lib := filepath.Join(release, "lib")
	eventstest.Must(t, os.MkdirAll(lib, 0o700))
	for _, element := range zookeeper.Classpath {
		jars, err := filepath.Glob(strings.TrimSuffix(element, ".jar") + "*.jar")
		if folder, all := strings.CutSuffix(element, "*"); all {
			jars, err = filepath.Glob(folder + "*.jar")
		}
		eventstest.Must(t, err)
		for _, jar := range jars {
			if link := filepath.Join(lib, filepath.Base(jar)); os.Symlink(jar, link) != nil {
				t.Logf("%s is there twice", jar)
			}
		}
	}
	bash := exec.Command("bash")
	bash.Dir = t.TempDir()
	bash.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	bash.Env = cloning(t, "ZOOKEEPER_HOME="+release,
		"PATH="+filepath.Dir(zookeeper.Java)+string(filepath.ListSeparator)+os.Getenv("PATH"))
	in, err := bash.StdinPipe()
	eventstest.Must(t, err)
	s := &shell{Process: eventstest.Begin(t, bash), dir: bash.Dir, in: in}
	t.Cleanup(func() {
		if t.Failed() {
			said, _ := os.ReadFile(filepath.Join(s.dir, "errors"))
			t.Logf("standard error of the shell:\n%s", said)
		}
		in.Close()
		_ = syscall.Kill(-bash.Process.Pid, syscall.SIGKILL) // the group may have ended
	})
	s.run(t, "exec 2>"+filepath.Join(s.dir, "errors"))
	return s
}

// follow types a command of the page, and compares its output with the page. A command
// that only reads is repeated until both are equal.
func (s *shell) follow(t *testing.T, entry string) {
	t.Helper()
	command, shown, _ := strings.Cut(entry, "\n")
	for more, continues := strings.CutPrefix(shown, "> "); continues; more, continues = strings.CutPrefix(shown, "> ") {
		var line string
		line, shown, _ = strings.Cut(more, "\n")
		command += "\n" + line
	}
	looks := regexp.MustCompile(`^(bin/zkgrant|grep) `).MatchString(command)
	printed := s.run(t, command)
	for again := 0; looks && again < 200 && !alike(printed, shown); again++ {
		printed = s.run(t, "sleep 0.5; "+command)
	}
	if !alike(printed, shown) {
		t.Fatalf("$ %s\nthe page shows\n%s\nthe shell printed\n%s", command, shown, printed)
	}
}

func alike(one, other string) bool {
	blurred := func(text string) string {
		text = regexp.MustCompile(`0x[0-9a-f]+|\(cached\)|\d+[\d.:/]*(ms|s\b)?`).ReplaceAllString(text, "N")
		return strings.TrimSpace(regexp.MustCompile(`[ \t]+`).ReplaceAllString(text, " "))
	}
	return blurred(one) == blurred(other)
}

// run types a command and returns its output.
func (s *shell) run(t *testing.T, command string) string {
	t.Helper()
	s.lines++
	mark := fmt.Sprintf("prompt %d\n", s.lines)
	_, err := fmt.Fprintf(s.in, "%s\nprintf '\\n%%s' '%s'\n", command, mark)
	eventstest.Must(t, err)
	s.Await(t, mark, 1)
	printed, _, _ := strings.Cut(s.String()[s.seen:], mark)
	s.seen += len(printed) + len(mark)
	return printed
}
