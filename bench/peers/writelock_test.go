package peers

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

func TestWhereWriteLockIsLookedFor(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	file := func(parts ...string) string {
		path := filepath.Join(append([]string{root}, parts...)...)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	asked := file("home", "zookeeper-recipes-lock-3.9.3.jar")
	installed := file("system", "zookeeper-recipes-lock.jar")
	unpacked := file("deps", "writelock", "zookeeper-recipes-lock.jar")
	home, system, deps := filepath.Dir(asked), filepath.Dir(installed), filepath.Join(root, "deps")
	nothing := filepath.Join(root, "nothing")

	for _, c := range []struct {
		name, home, system, deps, want string
	}{
		{"all there: the one asked for", home, system, deps, asked},
		{"installed", "", system, deps, installed},
		{"unpacked", "", nothing, deps, unpacked},
		{"nowhere", "", nothing, nothing, ""},
		{"no project", "", nothing, "", ""},
		{"another one than asked for", nothing, system, deps, ""},
	} {
		jar, err := findWriteLock(c.home, c.system, c.deps)
		if jar != c.want || (err == nil) != (c.want != "") || err != nil && !errors.Is(err, ErrNoWriteLock) {
			t.Errorf("%s: found %q, %v; want %q", c.name, jar, err, c.want)
		}
	}
}

func TestAClassPathWithMoreChangesNoOther(t *testing.T) {
	t.Parallel()
	c := Curator{Classpath: append(make([]string, 0, 4), "curator")}
	one, other := c.With("one"), c.With("other", "another")
	if !slices.Equal(c.Classpath, []string{"curator"}) || !slices.Equal(one.Classpath, []string{"curator", "one"}) ||
		!slices.Equal(other.Classpath, []string{"curator", "other", "another"}) {
		t.Errorf("class paths %q, %q, %q; want curator, and behind it one, and other and another", c, one, other)
	}
}
