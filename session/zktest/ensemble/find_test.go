package ensemble

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/zkgrant/zkgrant/events/eventstest"
)

// touch makes empty files, with their folders.
func touch(t *testing.T, paths ...string) {
	t.Helper()
	for _, path := range paths {
		eventstest.Must(t, os.MkdirAll(filepath.Dir(path), 0o700))
		eventstest.Must(t, os.WriteFile(path, nil, 0o700))
	}
}

func TestFindInZooKeeperHome(t *testing.T) {
	for name, jar := range map[string]string{
		"release from 3.5 on":         "lib/zookeeper-3.9.2.jar",
		"release before 3.5":          "zookeeper-3.4.14.jar",
		"unpacked packages":           "zookeeper.jar",
		"a folder named like [a-z]*?": "[a-z]/../zookeeper.jar",
	} {
		t.Run(name, func(t *testing.T) {
			home := t.TempDir()
			touch(t, filepath.Join(home, "bin/java"))
			if strings.HasPrefix(jar, "[") {
				home = filepath.Join(home, "[a-z]*?")
				jar = "zookeeper.jar"
			}
			touch(t, filepath.Join(home, jar), filepath.Join(home, "bin/java"))
			t.Setenv("ZOOKEEPER_HOME", home)
			t.Setenv("JAVA_HOME", home)
			got, err := Find()
			eventstest.Must(t, err)
			if got.Origin != home || got.Java != filepath.Join(home, "bin/java") {
				t.Errorf("found %+v, want what is in %s", got, home)
			}
			if !slices.Contains(got.Classpath, filepath.Join(filepath.Dir(filepath.Join(home, jar)), "*")) {
				t.Errorf("the class path is %q, want it to cover %s", got.Classpath, jar)
			}
			for _, element := range got.Classpath {
				if folder := strings.TrimSuffix(element, "*"); !isFolder(folder) {
					t.Errorf("the class path has %s, which is no folder", folder)
				}
			}
		})
	}
}

// A ZOOKEEPER_HOME without a ZooKeeper is a mistake. Another installation must not be used instead.
func TestFindInWrongZooKeeperHome(t *testing.T) {
	t.Setenv("ZOOKEEPER_HOME", t.TempDir())
	_, err := Find()
	if !errors.Is(err, ErrNotFound) || !strings.Contains(err.Error(), "ZOOKEEPER_HOME is") || !strings.Contains(err.Error(), "make deps") {
		t.Errorf("Find in a folder without ZooKeeper = %v, want one that says where to look and what to do", err)
	}
}

// A JAVA_HOME without a Java is a mistake, too.
func TestFindInWrongJavaHome(t *testing.T) {
	home := t.TempDir()
	touch(t, filepath.Join(home, "zookeeper.jar"))
	t.Setenv("ZOOKEEPER_HOME", home)
	t.Setenv("JAVA_HOME", home)
	if got, err := Find(); !errors.Is(err, ErrNotFound) || !strings.Contains(err.Error(), "JAVA_HOME is") {
		t.Errorf("Find with a JAVA_HOME without Java = %+v, %v, want an error that says so", got, err)
	}
}

func TestFindInDeps(t *testing.T) {
	if isFile(filepath.Join(systemJars, "zookeeper.jar")) {
		t.Skip("ZooKeeper is installed on this machine, which comes before .deps; uninstall it to run this test")
	}
	project := t.TempDir()
	touch(t,
		filepath.Join(project, "go.mod"), filepath.Join(project, ".deps/zookeeper/zookeeper.jar"), filepath.Join(project, ".deps/jre/bin/java"),
		filepath.Join(project, "nested/go.mod"), filepath.Join(project, "nested/deep/file"))
	t.Setenv("ZOOKEEPER_HOME", "")
	t.Setenv("JAVA_HOME", "")
	t.Chdir(filepath.Join(project, "nested/deep"))
	// If a temporary folder is reached through a link, the working directory is its other name.
	dir, err := os.Getwd()
	eventstest.Must(t, err)
	deps := filepath.Join(dir, "../../.deps")
	got, err := Find()
	eventstest.Must(t, err)
	if got.Java != filepath.Join(deps, "jre/bin/java") || !slices.Equal(got.Classpath, []string{filepath.Join(deps, "zookeeper/*")}) {
		t.Errorf("found %+v, want what is in %s", got, deps)
	}

	t.Run("without Java", func(t *testing.T) {
		t.Setenv("PATH", t.TempDir())
		eventstest.Must(t, os.RemoveAll(filepath.Join(deps, "jre")))
		if _, err := Find(); !errors.Is(err, ErrNotFound) || !strings.Contains(err.Error(), "Java is not") {
			t.Errorf("Find without Java = %v, want one that says so", err)
		}
	})
	t.Run("without anything", func(t *testing.T) {
		t.Chdir(t.TempDir())
		if _, err := Find(); !errors.Is(err, ErrNotFound) || !strings.Contains(err.Error(), "make deps") {
			t.Errorf("Find without anything = %v, want one that says what to do", err)
		}
	})
}
