package peers

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/zkgrant/zkgrant/session/zktest/ensemble"
)

// ErrNoWriteLock is what [FindWriteLock] returns, wrapped with where it has looked, on a machine without WriteLock.
var ErrNoWriteLock = errors.New("peers: no WriteLock to run; " +
	"run bench/deps, or set WRITELOCK_HOME to a folder with zookeeper-recipes-lock.jar")

// FindWriteLock returns the jar with ZooKeeper's own WriteLock, which is not part of the client's jar: from WRITELOCK_HOME, which must then
// have it; as Debian's package installs it; from .deps of the project of the working directory. The error wraps [ErrNoWriteLock] if there
// is none.
func FindWriteLock() (string, error) {
	deps, err := ensemble.Deps()
	if err != nil {
		return "", err
	}
	return findWriteLock(os.Getenv("WRITELOCK_HOME"), systemJars, deps)
}

// findWriteLock looks in the folders. An empty one is skipped.
func findWriteLock(home, system, deps string) (string, error) {
	const jar = "zookeeper-recipes-lock"
	if home != "" {
		found, err := filepath.Glob(filepath.Join(home, jar+"*.jar"))
		if err != nil || len(found) == 0 {
			return "", fmt.Errorf("%w: WRITELOCK_HOME is %s, which holds no %s*.jar", ErrNoWriteLock, home, jar)
		}
		return found[0], nil
	}
	if installed := filepath.Join(system, jar+".jar"); isFile(installed) {
		return installed, nil
	}
	if unpacked := filepath.Join(deps, "writelock", jar+".jar"); deps != "" && isFile(unpacked) {
		return unpacked, nil
	}
	return "", ErrNoWriteLock
}

// With returns the same Curator with more jars on its class path.
func (c Curator) With(jars ...string) Curator {
	c.Classpath = append(slices.Clip(c.Classpath), jars...)
	return c
}
