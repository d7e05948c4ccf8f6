package peers

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/zkgrant/zkgrant/session/zktest/ensemble"
)

// Kazoo is an installation of kazoo.
type Kazoo struct {
	Python        string // the program
	Path          string // the folder to put on Python's path; empty if none is needed
	Version       string // such as 2.8.0
	PythonVersion string // such as 3.11.2
}

// FindKazoo looks for Python on PATH and in .deps of the working directory's project. It
// looks for kazoo in KAZOO_HOME, in the same .deps, and on Python's own path. If there is
// none, the error wraps [ErrNotFound].
func FindKazoo(ctx context.Context) (Kazoo, error) {
	deps, err := ensemble.Deps()
	if err != nil {
		return Kazoo{}, err
	}
	missing := fmt.Errorf("%w, or install kazoo, or set KAZOO_HOME to its folder", ErrNotFound)
	var k Kazoo
	if k.Python, err = exec.LookPath("python3"); err != nil {
		k.Python = filepath.Join(deps, "python", "usr", "bin", "python3")
		if deps == "" || !isFile(k.Python) {
			return Kazoo{}, fmt.Errorf("%w: there is no python3", missing)
		}
	}
	k.Path = os.Getenv("KAZOO_HOME")
	if folder := inDeps(deps, "kazoo"); k.Path == "" && isFile(filepath.Join(folder, "kazoo", "client.py")) {
		k.Path = folder
	}
	const ask = "import sys, kazoo.client, kazoo.version; " +
		"print(kazoo.version.__version__, sys.version.split()[0])"
	cmd := exec.CommandContext(ctx, k.Python, "-c", ask)
	cmd.Env = k.environment()
	said, err := cmd.Output()
	if err != nil {
		return Kazoo{}, fmt.Errorf("%w: %s cannot import it: %w", missing, k.Python, err)
	}
	versions := strings.Fields(string(said))
	if len(versions) != 2 {
		return Kazoo{}, fmt.Errorf("%w: asked for its version it says %q", missing, said)
	}
	k.Version, k.PythonVersion = versions[0], versions[1]
	return k, nil
}

// Command returns the command that runs a Python script, given as text.
func (k Kazoo) Command(script string, args ...string) *exec.Cmd {
	cmd := exec.Command(k.Python, append([]string{"-u", "-c", script}, args...)...)
	cmd.Env = k.environment()
	return cmd
}

// environment returns this process's environment, with kazoo's folder on Python's path.
func (k Kazoo) environment() []string {
	if k.Path == "" {
		return os.Environ()
	}
	return append(os.Environ(), "PYTHONPATH="+k.Path)
}
