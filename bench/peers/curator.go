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
	"strings"

	"github.com/zkgrant/zkgrant/session/zktest/ensemble"
)

// ErrNotFound is what [FindCurator] returns, wrapped with what is missing, on a machine without Apache Curator.
var ErrNotFound = errors.New("peers: no Apache Curator to run")

// howToGet is the end of every message about a missing Curator.
const howToGet = "run bench/deps, or set CURATOR_HOME to a folder with its jars (recipes, framework, client) and guava"

const (
	systemJars = "/usr/share/java"     // where Debian installs them
	compiler   = "jdk.compiler"        // the module of a Java that compiles; Debian's headless runtime has it
	recipesJar = "curator-recipes.jar" // the jar by which Curator is recognised
	separator  = string(os.PathListSeparator)
)

// Curator is an Apache Curator that can run.
type Curator struct {
	Java      string   // the java program
	Classpath []string // jars of Curator and of ZooKeeper's client; an element may be a folder followed by /*
	Origin    string   // the file or folder where it was found, for messages
	Version   string   // such as 5.4.0
}

// FindCurator looks for a Curator to run on the Java, and with the client, of the ZooKeeper: in CURATOR_HOME, which must then have one; as
// Debian's packages install it; in .deps of the project of the working directory. The error wraps [ErrNotFound] and says how to get what
// is missing.
func FindCurator(zookeeper ensemble.Installation) (Curator, error) {
	deps, err := ensemble.Deps()
	if err != nil {
		return Curator{}, err
	}
	classpath, recipes, err := findJars(os.Getenv("CURATOR_HOME"), systemJars, deps)
	if err != nil {
		return Curator{}, err
	}
	version, err := versionOf(recipes)
	if err != nil {
		return Curator{}, err
	}
	return Curator{
		Java:      zookeeper.Java,
		Classpath: append(classpath, zookeeper.Classpath...),
		Origin:    recipes,
		Version:   version,
	}, nil
}

// findJars returns the class path and the jar of the recipes. An empty folder is skipped.
func findJars(home, system, deps string) (classpath []string, recipes string, err error) {
	if home != "" {
		found, err := filepath.Glob(filepath.Join(home, "curator-recipes*.jar"))
		if err != nil || len(found) == 0 {
			return nil, "", fmt.Errorf("%w: CURATOR_HOME is %s, which holds no curator-recipes*.jar; %s",
				ErrNotFound, home, howToGet)
		}
		return []string{filepath.Join(home, "*")}, found[0], nil
	}
	if jar := filepath.Join(system, recipesJar); isFile(jar) {
		return []string{jar}, jar, nil // its manifest names all other jars by absolute path
	}
	if jar := filepath.Join(deps, "curator", recipesJar); deps != "" && isFile(jar) {
		return []string{filepath.Join(deps, "curator", "*")}, jar, nil
	}
	return nil, "", fmt.Errorf("%w; %s", ErrNotFound, howToGet)
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

// Compile compiles the source of a Java class, which must have the name of the file, into the folder.
func (c Curator) Compile(ctx context.Context, folder, class, source string) error {
	file := filepath.Join(folder, class+".java")
	if err := os.WriteFile(file, []byte(source), 0o600); err != nil {
		return fmt.Errorf("peers: compiling %s: %w", class, err)
	}
	jars, err := spellOut(c.Classpath)
	if err != nil {
		return fmt.Errorf("peers: compiling %s: %w", class, err)
	}
	// The compiler is a module of the runtime, so that no program javac is needed.
	compile := exec.CommandContext(ctx, c.Java, "--module", compiler+"/com.sun.tools.javac.Main",
		"-d", folder, "-classpath", strings.Join(jars, separator), file)
	if said, err := compile.CombinedOutput(); err != nil {
		return fmt.Errorf("peers: compiling %s with %s, which needs its module %s: %w\n%s",
			class, c.Java, compiler, err, said)
	}
	return nil
}

// spellOut replaces a pattern for all jars of a folder by their names, as the program java does and the compiler itself does not.
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

func isFolder(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}
