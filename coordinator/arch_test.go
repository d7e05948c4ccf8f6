package coordinator_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/zkgrant/zkgrant/events/eventstest"
)

// TestArchitecture checks that the pure rooms start no goroutine and have no channel.
// Their other bans are in .golangci.yml.
func TestArchitecture(t *testing.T) {
	for _, room := range []string{"events", "recipes"} {
		names, err := filepath.Glob(filepath.Join("..", room, "*.go"))
		eventstest.Must(t, err)
		names = slices.DeleteFunc(names, func(name string) bool { return strings.HasSuffix(name, "_test.go") })
		expect(t, len(names) > 2, "%s has the files %q, want all of them looked at", room, names)
		for _, name := range names {
			files := token.NewFileSet()
			file, err := parser.ParseFile(files, name, nil, parser.SkipObjectResolution)
			eventstest.Must(t, err)
			ast.Inspect(file, func(n ast.Node) bool {
				switch n.(type) {
				case *ast.GoStmt, *ast.ChanType, *ast.SelectStmt:
					t.Errorf("%s: a pure room must not have a %T", files.Position(n.Pos()), n)
				}
				return true
			})
		}
	}
}

// TestWhatUsersLink: besides its own packages, a program that uses the library or the
// in-process server links only the ZooKeeper client and the logger. It never links
// package testing and its flags.
func TestWhatUsersLink(t *testing.T) {
	const module = "github.com/zkgrant/zkgrant"
	ours := []string{module, "github.com/go-zookeeper/zk", "go.uber.org/zap", "go.uber.org/multierr"}
	for _, program := range []string{
		"coordinator", "events", "session/zktest", "coordinator/board", "coordinator/bridge", "examples/quickstart",
	} {
		command := exec.CommandContext(t.Context(), "go", "list", "-deps", "./"+program)
		command.Dir, command.Stderr = "..", os.Stderr
		list, err := command.Output()
		eventstest.Must(t, err)
		deps := strings.Fields(string(list))
		expect(t, slices.Contains(deps, module+"/events"), "%s does not use the library: %q", program, deps)
		for _, dep := range deps {
			known := slices.ContainsFunc(ours, func(root string) bool { return strings.HasPrefix(dep+"/", root+"/") })
			standard := dep != "testing" && !strings.Contains(strings.Split(dep, "/")[0], ".")
			expect(t, known || standard, "%s links %s", program, dep)
		}
	}
}
