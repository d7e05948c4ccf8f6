package peers

import (
	"archive/zip"
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/zkgrant/zkgrant/session/zktest/ensemble"
)

// ErrNotFound means that this machine lacks a library or a server. The errors that wrap it
// say how to get what is missing.
var ErrNotFound = errors.New("peers: not found; run bench/deps")

const (
	systemJars = "/usr/share/java" // where Debian installs them
	compiler   = "jdk.compiler"    // the compiler module; Debian's headless runtime has it
	separator  = string(os.PathListSeparator)
)

// Curator is an installation of Apache Curator.
type Curator struct {
	Java      string   // the java program
	Classpath []string // jars of Curator and of ZooKeeper's client; an element may be a folder followed by /*
	Version   string   // such as 5.4.0
}

// FindCurator finds Curator, to run with the Java and the client of zookeeper. It looks
// in CURATOR_HOME, which must have it if set, then where Debian's packages install it,
// then in .deps of the working directory's project. If CURATOR_HOME also has a ZooKeeper
// client, that one is used. If there is no Curator, the error wraps [ErrNotFound].
func FindCurator(zookeeper ensemble.Installation) (Curator, error) {
	deps, err := ensemble.Deps()
	if err != nil {
		return Curator{}, err
	}
	recipes, err := findJar("curator-recipes", os.Getenv("CURATOR_HOME"), systemJars, inDeps(deps, "curator"))
	if err != nil {
		return Curator{}, fmt.Errorf("%w, or set CURATOR_HOME to a folder with Curator's jars (recipes, framework, client) and guava: %w",
			ErrNotFound, err)
	}
	version, err := versionOf(recipes)
	if err != nil {
		return Curator{}, err
	}
	classpath := []string{filepath.Join(filepath.Dir(recipes), "*")}
	if filepath.Dir(recipes) == systemJars {
		classpath = []string{recipes} // its manifest names all other jars by absolute path
	}
	if own, err := filepath.Glob(filepath.Join(filepath.Dir(recipes), "zookeeper-[0-9]*.jar")); err != nil || len(own) == 0 {
		classpath = append(classpath, zookeeper.Classpath...)
	}
	return Curator{Java: zookeeper.Java, Classpath: classpath, Version: version}, nil
}

// FindWriteLock returns the jar with ZooKeeper's own WriteLock, which is not part of the
// client's jar. It looks in WRITELOCK_HOME, which must have it if set, then where
// Debian's package installs it, then in .deps of the working directory's project. If
// there is none, the error wraps [ErrNotFound].
func FindWriteLock() (string, error) {
	deps, err := ensemble.Deps()
	if err != nil {
		return "", err
	}
	jar, err := findJar("zookeeper-recipes-lock", os.Getenv("WRITELOCK_HOME"), systemJars, inDeps(deps, "writelock"))
	if err != nil {
		return "", fmt.Errorf("%w, or set WRITELOCK_HOME to a folder with zookeeper-recipes-lock.jar: %w", ErrNotFound, err)
	}
	return jar, nil
}

// inDeps returns a folder in .deps, or "" if there is no project.
func inDeps(deps, folder string) string {
	if deps == "" {
		return ""
	}
	return filepath.Join(deps, folder)
}

// findJar looks for a jar: if home is set, only there, where its name may end with a
// version; otherwise in the other folders.
func findJar(name, home string, folders ...string) (string, error) {
	if home != "" {
		found, err := filepath.Glob(filepath.Join(home, name+"*.jar"))
		if err != nil || len(found) == 0 {
			return "", fmt.Errorf("%s holds no %s*.jar", home, name)
		}
		return found[0], nil
	}
	for _, folder := range folders {
		if jar := filepath.Join(folder, name+".jar"); folder != "" && isFile(jar) {
			return jar, nil
		}
	}
	return "", fmt.Errorf("there is no %s.jar in %q", name, folders)
}

// With returns a Curator with more jars on its class path.
func (c Curator) With(jars ...string) Curator {
	c.Classpath = append(slices.Clip(c.Classpath), jars...)
	return c
}

// versionOf reads the version that Maven wrote into the jar.
func versionOf(jar string) (string, error) {
	archive, err := zip.OpenReader(jar)
	if err != nil {
		return "", fmt.Errorf("peers: the version of %s: %w", jar, err)
	}
	defer archive.Close()
	file, err := archive.Open("META-INF/maven/org.apache.curator/curator-recipes/pom.properties")
	if err != nil {
		return "", fmt.Errorf("peers: the version of %s: %w", jar, err)
	}
	defer file.Close()
	for lines := bufio.NewScanner(file); lines.Scan(); {
		if version, ok := strings.CutPrefix(lines.Text(), "version="); ok {
			return strings.TrimSpace(version), nil
		}
	}
	return "", fmt.Errorf("peers: %s does not say its version", jar)
}

// Compile compiles the source of a Java class into the folder. class is also the name of
// the file.
func (c Curator) Compile(ctx context.Context, folder, class, source string) error {
	file := filepath.Join(folder, class+".java")
	if err := os.WriteFile(file, []byte(source), 0o600); err != nil {
		return fmt.Errorf("peers: compiling %s: %w", class, err)
	}
	jars, err := spellOut(c.Classpath)
	if err != nil {
		return fmt.Errorf("peers: compiling %s: %w", class, err)
	}
	// The compiler is a module of the runtime, so javac is not needed.
	compile := exec.CommandContext(ctx, c.Java, "--module", compiler+"/com.sun.tools.javac.Main",
		"-d", folder, "-classpath", strings.Join(jars, separator), file)
	if said, err := compile.CombinedOutput(); err != nil {
		return fmt.Errorf("peers: compiling %s with %s, which needs its module %s: %w\n%s",
			class, c.Java, compiler, err, said)
	}
	return nil
}

// spellOut expands folder/* to the jars in the folder. The program java does that, but
// the compiler does not.
func spellOut(classpath []string) ([]string, error) {
	var jars []string
	for _, element := range classpath {
		folder, all := strings.CutSuffix(element, string(filepath.Separator)+"*")
		if !all {
			jars = append(jars, element)
			continue
		}
		entries, err := os.ReadDir(folder)
		if err != nil {
			return nil, err
		}
		for _, entry := range entries {
			if strings.HasSuffix(entry.Name(), ".jar") {
				jars = append(jars, filepath.Join(folder, entry.Name()))
			}
		}
	}
	return jars, nil
}

// Command returns the command that runs a class which Compile has put into the folder.
func (c Curator) Command(folder, class string, args ...string) *exec.Cmd {
	line := []string{
		"-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
		"-classpath", strings.Join(append([]string{folder}, c.Classpath...), separator),
		class,
	}
	return exec.Command(c.Java, append(line, args...)...)
}

func isFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}
