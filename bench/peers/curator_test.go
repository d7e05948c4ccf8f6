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

func TestWhereCuratorIsLookedFor(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	in := func(parts ...string) string { return filepath.Join(append([]string{root}, parts...)...) }
	home, system, deps, nothing := in("home"), in("system"), in("deps"), in("nothing")
	asked := in("home", "curator-recipes-5.7.1.jar")
	installed := in("system", "curator-recipes.jar")
	unpacked := in("deps", "curator", "curator-recipes.jar")
	jar(t, asked, "5.7.1")
	jar(t, installed, "5.4.0")
	jar(t, unpacked, "5.4.0")

	for _, c := range []struct {
		name, home, system, deps string
		classpath                []string
		recipes                  string
	}{
		{"all there: the one asked for", home, system, deps, []string{in("home", "*")}, asked},
		{"installed", "", system, deps, []string{installed}, installed},
		{"unpacked", "", nothing, deps, []string{in("deps", "curator", "*")}, unpacked},
		{"nowhere", "", nothing, nothing, nil, ""},
		{"no project", "", nothing, "", nil, ""},
		{"another one than asked for", nothing, system, deps, nil, ""},
	} {
		classpath, recipes, err := findJars(c.home, c.system, c.deps)
		if !slices.Equal(classpath, c.classpath) || recipes != c.recipes {
			t.Errorf("%s: found %q, %q; want %q, %q", c.name, classpath, recipes, c.classpath, c.recipes)
		}
		if (err == nil) != (c.recipes != "") {
			t.Errorf("%s: error %v, want one: %v", c.name, err, c.recipes == "")
		}
		if err != nil && (!errors.Is(err, ErrNotFound) || !strings.Contains(err.Error(), "bench/deps")) {
			t.Errorf("%s: %v; want ErrNotFound, and how to get it", c.name, err)
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
