package peers

import (
	"archive/zip"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/zkgrant/zkgrant/session/zktest/ensemble"
)

// jar makes a jar of Curator's recipes that says its version.
func jar(t *testing.T, file, version string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	out, err := os.Create(file)
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	archive := zip.NewWriter(out)
	if version != "" {
		properties, err := archive.Create("META-INF/maven/org.apache.curator/curator-recipes/pom.properties")
		if err != nil {
			t.Fatal(err)
		}
		text := "#Generated\ngroupId=org.apache.curator\nversion=" + version + "\n"
		if _, err := properties.Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	if err := archive.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestWhereJarsAreLookedFor: only in the wanted folder, if there is one; else in the system's folder, else in the project.
func TestWhereJarsAreLookedFor(t *testing.T) {
	t.Parallel()
	curator := func(home, system, deps string) (string, error) {
		classpath, recipes, err := findJars(home, system, deps)
		want := []string{filepath.Join(filepath.Dir(recipes), "*")}
		if filepath.Dir(recipes) == system {
			want = []string{recipes}
		}
		if err == nil && !slices.Equal(classpath, want) {
			t.Errorf("the class path of %s is %q, want %q", recipes, classpath, want)
		}
		if err != nil && !strings.Contains(err.Error(), "bench/deps") {
			t.Errorf("%v; want how to get it", err)
		}
		return recipes, err
	}
	for _, library := range []struct {
		jar, folder string
		find        func(home, system, deps string) (string, error)
		missing     error
	}{
		{"curator-recipes", "curator", curator, ErrNotFound},
		{"zookeeper-recipes-lock", "writelock", findWriteLock, ErrNoWriteLock},
	} {
		root := t.TempDir()
		file := func(parts ...string) string {
			path := filepath.Join(append([]string{root}, parts...)...)
			if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, nil, 0o600)); err != nil {
				t.Fatal(err)
			}
			return path
		}
		asked := file("home", library.jar+"-3.9.3.jar")
		installed := file("system", library.jar+".jar")
		unpacked := file("deps", library.folder, library.jar+".jar")
		home, system, deps := filepath.Dir(asked), filepath.Dir(installed), filepath.Join(root, "deps")
		nothing := filepath.Join(root, "nothing")
		for _, c := range []struct{ name, home, system, deps, want string }{
			{"all there: the one asked for", home, system, deps, asked},
			{"installed", "", system, deps, installed},
			{"unpacked", "", nothing, deps, unpacked},
			{"nowhere", "", nothing, nothing, ""},
			{"no project", "", nothing, "", ""},
			{"another one than asked for", nothing, system, deps, ""},
		} {
			jar, err := library.find(c.home, c.system, c.deps)
			if jar != c.want || (err == nil) != (c.want != "") || err != nil && !errors.Is(err, library.missing) {
				t.Errorf("%s, %s: found %q, %v; want %q", library.jar, c.name, jar, err, c.want)
			}
		}
	}
}

func TestFindCurator(t *testing.T) {
	home := t.TempDir()
	t.Setenv("CURATOR_HOME", home)
	zookeeper := ensemble.Installation{Java: "/jre/bin/java", Classpath: []string{"/zookeeper/*"}}
	if _, err := FindCurator(zookeeper); !errors.Is(err, ErrNotFound) {
		t.Errorf("in an empty folder: %v", err)
	}
	recipes := filepath.Join(home, "curator-recipes.jar")
	jar(t, recipes, "")
	if _, err := FindCurator(zookeeper); err == nil {
		t.Error("FindCurator of a jar without a version: no error")
	}
	jar(t, recipes, "5.4.0")
	c, err := FindCurator(zookeeper)
	if err != nil {
		t.Fatal(err)
	}
	want := Curator{
		Java: zookeeper.Java, Origin: recipes, Version: "5.4.0",
		Classpath: []string{filepath.Join(home, "*"), "/zookeeper/*"},
	}
	if !reflect.DeepEqual(c, want) {
		t.Errorf("FindCurator = %+v, want %+v", c, want)
	}
	line := c.Command("classes", "Main", "one", "two").Args
	classpath := strings.Join(append([]string{"classes"}, c.Classpath...), separator)
	if !slices.Contains(line, classpath) || !slices.Equal(line[len(line)-3:], []string{"Main", "one", "two"}) {
		t.Errorf("the command is %q; want class path %s, and at the end Main one two", line, classpath)
	}
	if err := os.WriteFile(filepath.Join(home, "README"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	jars, err := spellOut([]string{"first.jar", filepath.Join(home, "*")})
	if err != nil || !slices.Equal(jars, []string{"first.jar", recipes}) {
		t.Errorf("spellOut = %q, %v; want first.jar and %s", jars, err, recipes)
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
