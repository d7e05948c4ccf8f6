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

func touch(t *testing.T, paths ...string) {
	t.Helper()
	for _, path := range paths {
		eventstest.Must(t, os.MkdirAll(filepath.Dir(path), 0o700))
		eventstest.Must(t, os.WriteFile(path, nil, 0o700))
	}
}

// wantNone fails the test unless Find finds nothing and says why, and what to do.
func wantNone(t *testing.T, says ...string) {
	t.Helper()
	got, err := Find()
	if !errors.Is(err, ErrNotFound) {
		t.Fatalf("found %+v, %v; want %v", got, err, ErrNotFound)
	}
	for _, text := range says {
		eventstest.Contains(t, err.Error(), text, "the error")
	}
}

func TestFindInZooKeeperHome(t *testing.T) {
	for name, c := range map[string]struct{ folder, jar string }{
		"release from 3.5 on":           {"home", "lib/zookeeper-3.9.2.jar"},
		"release before 3.5":            {"home", "zookeeper-3.4.14.jar"},
		"unpacked packages":             {"home", "zookeeper.jar"},
		"a folder named like a pattern": {"[a-z]*?", "zookeeper.jar"},
	} {
		t.Run(name, func(t *testing.T) {
			home := filepath.Join(t.TempDir(), c.folder)
			jar, java := filepath.Join(home, c.jar), filepath.Join(home, "bin/java")
			touch(t, jar, java)
			t.Setenv("ZOOKEEPER_HOME", home)
			t.Setenv("JAVA_HOME", home)
			got, err := Find()
			eventstest.Must(t, err)
			covers := slices.Contains(got.Classpath, filepath.Join(filepath.Dir(jar), "*"))
			eventstest.Expect(t, got.Origin == home && got.Java == java && covers, "found %+v in %s", got, home)
			for _, element := range got.Classpath {
				folder := strings.TrimSuffix(element, "*")
				eventstest.Expect(t, isFolder(folder), "the class path has %s, which is no folder", folder)
			}
		})
	}
}

// A variable with a wrong path is a mistake. Another installation must not be used
// instead.
func TestFindInWrongHome(t *testing.T) {
	home := t.TempDir()
	t.Setenv("ZOOKEEPER_HOME", home)
	wantNone(t, "ZOOKEEPER_HOME is", "make deps")
	touch(t, filepath.Join(home, "zookeeper.jar"))
	t.Setenv("JAVA_HOME", home)
	wantNone(t, "JAVA_HOME is")
}

func TestFindInDeps(t *testing.T) {
	if isFile(filepath.Join(systemJars, "zookeeper.jar")) {
		t.Skip("ZooKeeper is installed on this machine, which comes before .deps; uninstall it to run this test")
	}
	t.Setenv("ZOOKEEPER_HOME", "")
	t.Setenv("JAVA_HOME", "")
	project := t.TempDir()
	for _, file := range []string{"go.mod", ".deps/zookeeper/zookeeper.jar", ".deps/jre/bin/java", "nested/go.mod", "nested/deep/file"} {
		touch(t, filepath.Join(project, file))
	}
	t.Chdir(filepath.Join(project, "nested/deep"))
	// If a temporary folder is reached through a link, the working directory has its
	// other name.
	dir, err := os.Getwd()
	eventstest.Must(t, err)
	deps := filepath.Join(dir, "../../.deps")
	got, err := Find()
	eventstest.Must(t, err)
	eventstest.Equal(t, got.Java, filepath.Join(deps, "jre/bin/java"), "Java")
	eventstest.Equal(t, got.Classpath, []string{filepath.Join(deps, "zookeeper/*")}, "the class path")
	t.Setenv("PATH", t.TempDir())
	eventstest.Must(t, os.RemoveAll(filepath.Join(deps, "jre")))
	wantNone(t, "Java is not")
	t.Chdir(t.TempDir())
	wantNone(t, "make deps")
}
