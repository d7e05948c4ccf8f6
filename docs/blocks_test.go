package docs_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/format"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/session/zktest"
)

const (
	module   = "github.com/zkgrant/zkgrant"
	overview = "coordinator/doc.go" // its blocks are in its doc comment
)

// shape is the syntactic form of a block of Go.
type shape int

const (
	fragment shape = iota + 1 // the body of a function
	program
	tests
	programTests // a test file for the program before it
)

// block is a code block of Go on a page.
type block struct {
	at     string // page:line
	number int    // programTests have that of their program
	text   string
	shape  shape
}

// label returns the first line if it is a comment. In docs/moving.md it names the library
// that the code uses.
func (b *block) label() string {
	first, _, _ := strings.Cut(b.text, "\n")
	if name, comment := strings.CutPrefix(first, "// "); comment {
		return name
	}
	return ""
}

func (b *block) asks() bool {
	return b.shape == program || b.shape == fragment && b.label() != "go-zookeeper" &&
		regexp.MustCompile(`\.(Acquire|Hold|Do|Terms|Run)\(`).MatchString(b.text)
}

func (b *block) chroot() string { return fmt.Sprintf("/block%d", b.number) }

// folder returns the folder of a program and its tests, or the prefix of the file name
// for other blocks. It exists only in the go command's overlay.
func (b *block) folder() string { return fmt.Sprintf("docs/testdata/block%d", b.number) }

func blocksOf(t *testing.T) (all []*block) {
	t.Helper()
	add := func(page string, line int, text string) {
		shape, number := fragment, len(all)
		if strings.HasPrefix(text, "package ") && strings.Contains(text, "\nfunc Test") {
			shape, number = programTests, number-1
		} else if strings.HasPrefix(text, "package ") {
			shape = program
		} else if _, err := parser.ParseFile(token.NewFileSet(), "", "package p\n"+text, 0); err == nil {
			shape = tests
		}
		all = append(all, &block{fmt.Sprintf("%s:%d", page, line), number, text, shape})
	}
	for _, page := range pages(t) {
		_, fences := split(read(t, page))
		for _, f := range fences {
			if f.language == "go" {
				add(page, f.line, f.text)
			}
		}
	}
	source := read(t, overview)
	for _, at := range regexp.MustCompile(`(?m)(^//\t.*\n)+`).FindAllStringIndex(source, -1) {
		text := strings.ReplaceAll("\n"+source[at[0]:at[1]], "\n//\t", "\n")[1:]
		add(overview, 1+strings.Count(source[:at[0]], "\n"), text)
	}
	return all
}

// callsOf returns a function with zkgrant's calls in the tables of docs/moving.md.
func callsOf(t *testing.T) string {
	t.Helper()
	tables, _, _ := strings.Cut(read(t, "docs/moving.md"), "## Side by side")
	calls := regexp.MustCompile("`(?:\\w+ := )?([^`]+\\([^`]*)`")
	receivers := map[string]string{ // for calls without a receiver
		"Acquire": "l.", "Queue": "l.", "Watch": "l.", "Revocable": "coordinator.", "Reentrant": "coordinator.",
		"Terms": "e.", "Observe": "e.",
	}
	body, count := "", 0
	for line := range strings.Lines(tables) {
		cells := strings.Split(line, "|")
		if len(cells) != 4 {
			continue
		}
		for _, m := range calls.FindAllStringSubmatch(cells[2], -1) {
			name, _, _ := strings.Cut(m[1], "(")
			body += receivers[name] + m[1] + "\n"
			count++
		}
	}
	eventstest.Expect(t, count >= 60, "only %d calls were looked at, want 60 or more", count)
	return imported(t, "package main\n", `func calls(
	ctx context.Context, c *coordinator.Coordinator, l *coordinator.Lock, e *coordinator.Election,
	a, term *coordinator.Acquisition, path, another, s, servers, value, identity, id, user, password, root, scheme string,
	auth, data []byte, acl []zk.ACL, d, grace time.Duration, locks []*coordinator.Lock,
	f func(context.Context, events.Grant) error, edit func(old []byte, exists bool) ([]byte, error),
	callbacks bridge.Callbacks, hooks []any, ops []any,
) {
	rw := c.ReadWrite(path)
`+body+"}\n")
}

func (b *block) source(t *testing.T, addr string) string {
	t.Helper()
	servers := regexp.MustCompile(`"(?:zk1|localhost):[^"]*"`)
	switch b.shape {
	case program:
		return servers.ReplaceAllLiteralString(b.text, strconv.Quote(addr+b.chroot()))
	case programTests:
		return b.text
	case tests:
		return imported(t, "package main_test\n", b.text)
	default:
		body := servers.ReplaceAllLiteralString(b.text, "servers")
		return imported(t, "package main\n", fmt.Sprintf(
			"func block%d(ctx context.Context, c *coordinator.Coordinator) error {\n%s\nreturn nil\n}\n", b.number, body))
	}
}

// imported returns the package clause and the declarations, with the imports that they
// need in between.
func imported(t *testing.T, clause, declarations string) string {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "", clause+declarations, parser.SkipObjectResolution)
	if err != nil {
		t.Fatalf("%v in:\n%s", err, declarations)
	}
	packages := map[string]string{
		"crc32": "hash/crc32", "signal": "os/signal", "atomic": "sync/atomic", "http": "net/http",
		"x509": "crypto/x509", "synctest": "testing/synctest", "tls": "crypto/tls",
		"board": module + "/coordinator/board", "bridge": module + "/coordinator/bridge", "coordinator": module + "/coordinator", "events": module + "/events", "zktest": module + "/session/zktest",
		"sasl": module + "/session/sasl", "zap": "go.uber.org/zap", "zk": "github.com/go-zookeeper/zk",
	}
	for _, name := range []string{"context", "errors", "fmt", "log", "net", "os", "sync", "syscall", "testing", "time"} {
		packages[name] = name
	}
	var needed []string
	ast.Inspect(file, func(n ast.Node) bool {
		if use, ok := n.(*ast.SelectorExpr); ok {
			if x, ok := use.X.(*ast.Ident); ok && packages[x.Name] != "" {
				needed = append(needed, fmt.Sprintf("import %q\n", packages[x.Name]))
			}
		}
		return true
	})
	slices.Sort(needed)
	return clause + strings.Join(slices.Compact(needed), "") + declarations
}

// overlay writes the go command's overlay, which adds the files for the blocks and those
// that run them.
func overlay(t *testing.T, blocks []*block, addr string) string {
	t.Helper()
	home, err := filepath.Abs(root)
	eventstest.Must(t, err)
	temp := t.TempDir()
	replace := map[string]string{}
	put := func(name, text string) {
		file := filepath.Join(temp, strings.ReplaceAll(name, "/", "_"))
		eventstest.Must(t, os.WriteFile(file, []byte(text), 0o600))
		replace[filepath.Join(home, filepath.FromSlash(name))] = file
	}
	table := "package main\nimport (\"context\"; \"" + module + "/coordinator\")\n" +
		"func fragments() map[string]func(context.Context, *coordinator.Coordinator) error {\n" +
		"return map[string]func(context.Context, *coordinator.Coordinator) error{\n"
	for _, b := range blocks {
		switch b.shape {
		case program:
			put(b.folder()+"/main.go", b.source(t, addr))
		case programTests:
			put(b.folder()+"/main_test.go", b.source(t, addr))
		case tests:
			put(b.folder()+"_test.go", b.source(t, addr))
		default:
			put(b.folder()+".go", b.source(t, addr))
			table += fmt.Sprintf("%q: block%d,\n", b.at, b.number)
		}
	}
	put("docs/testdata/table.go", table+"}\n}\n")
	put("docs/testdata/calls.go", callsOf(t))
	text, err := json.Marshal(map[string]any{"Replace": replace})
	eventstest.Must(t, err)
	file := filepath.Join(temp, "overlay.json")
	eventstest.Must(t, os.WriteFile(file, text, 0o600))
	return file
}

// goCommand runs the go command in the repository's folder, and returns what it says.
func goCommand(t *testing.T, args ...string) string {
	t.Helper()
	command := exec.CommandContext(t.Context(), "go", args...)
	command.Dir = root
	said, err := command.CombinedOutput()
	if err != nil {
		t.Fatalf("go %s: %v\n%s", strings.Join(args, " "), err, said)
	}
	return string(said)
}

// TestBlocksOfGo compiles and vets every block of Go on the pages, and runs its tests. It
// also runs the blocks that take a lock: on SIGTERM under the lock, they exit and leave
// no node.
func TestBlocksOfGo(t *testing.T) {
	t.Parallel()
	srv := zktest.Start(t)
	blocks := slices.DeleteFunc(blocksOf(t), func(b *block) bool {
		return b.label() == "etcd" // this module does not depend on etcd's client
	})
	file, bin := overlay(t, blocks, srv.Addr()), t.TempDir()

	build := []string{"build", "-buildvcs=false", "-overlay", file, "-o", bin + string(filepath.Separator), "./docs/testdata"}
	withTests := 0
	for _, b := range blocks {
		switch b.shape {
		case program:
			build = append(build, "./"+b.folder())
		case programTests:
			goCommand(t, "test", "-c", "-vet=off", "-overlay", file, "-o", filepath.Join(bin, "tests"), "./"+b.folder())
			out, err := exec.CommandContext(t.Context(), filepath.Join(bin, "tests"), "-test.v").CombinedOutput()
			eventstest.Expect(t, err == nil && bytes.Contains(out, []byte("--- PASS")), "%s: %v %s", b.at, err, out)
		case tests:
			withTests++
		default:
		}
	}
	goCommand(t, build...)
	goCommand(t, "vet", "-unreachable=false", "-overlay", file, "./docs/testdata")
	goCommand(t, "test", "-count=1", "-overlay", file, "./docs/testdata")

	if runtime.GOOS == "windows" {
		t.Skip("blocks are ended by a signal, which this system has not")
	}
	run := 0
	for _, b := range blocks {
		if !b.asks() {
			continue
		}
		run++
		t.Run(b.at, func(t *testing.T) {
			t.Parallel()
			endsOnSignal(t, srv, b, bin)
		})
	}
	t.Logf("%d blocks of Go, %d of them run", len(blocks), run)
	eventstest.Expect(t, len(blocks) >= 20 && run >= 15 && withTests >= 1,
		"%d blocks, %d ask for a lock, %d have tests; want 20, 15 and 1", len(blocks), run, withTests)
}

// endsOnSignal runs the block, sends it SIGTERM once it has printed something, and waits
// until it exits.
func endsOnSignal(t *testing.T, srv *zktest.Server, b *block, bin string) {
	t.Helper()
	for _, node := range []string{"/total", "/balance"} { // nodes that blocks write to
		eventstest.Must(t, srv.Create(b.chroot()+node, nil))
	}
	name := "testdata" // the program of all fragments
	if b.shape == program {
		name = filepath.Base(b.folder())
	}
	command := exec.CommandContext(eventstest.Patiently(t, 3*time.Minute), filepath.Join(bin, name), b.at)
	command.Env = append(os.Environ(), "ZKGRANT_SERVERS="+srv.Addr()+b.chroot())
	out, in, err := os.Pipe()
	eventstest.Must(t, err)
	defer out.Close()
	var complaint bytes.Buffer
	command.Stdout, command.Stderr = in, &complaint
	if b.shape == program {
		command.Stderr = in // package log
	}
	err = command.Start()
	in.Close()
	eventstest.Must(t, err)
	said, _ := bufio.NewReader(out).ReadString('\n') // empty if it exited by itself
	if said != "" {
		if err := command.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
			t.Error(err)
		}
	}
	err = command.Wait()
	eventstest.Expect(t, err == nil, "SIGTERM under the lock ended the block with %v; it said %q, %s\n%s",
		err, said, &complaint, b.text)
	for _, node := range srv.Tree() {
		eventstest.Expect(t, !strings.HasPrefix(node, b.chroot()+"/") || srv.Owner(node) == 0, "%s is left", node)
	}
}

// TestBlocksAreFormatted checks that code copied from a page is gofmt-clean.
func TestBlocksAreFormatted(t *testing.T) {
	t.Parallel()
	for _, b := range blocksOf(t) {
		formatted, err := format.Source([]byte(b.text))
		eventstest.Expect(t, err == nil && string(formatted) == b.text,
			"%s: %v, gofmt makes of the block\n%s", b.at, err, formatted)
	}
}
