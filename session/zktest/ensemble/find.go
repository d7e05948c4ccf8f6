package ensemble

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
)

// ErrNotFound is the error of [Find] on a machine without ZooKeeper or Java. The wrapping
// error says what is missing.
var ErrNotFound = errors.New("ensemble: no ZooKeeper to run")

// howToGet ends every message about something missing.
const howToGet = "run `make deps` in the project's folder, or set ZOOKEEPER_HOME to an unpacked release of Apache ZooKeeper and have java on PATH"

const (
	systemJars = "/usr/share/java" // where Debian installs jars
	depsFolder = ".deps"           // where `make deps` unpacks what it downloads; next to go.mod
)

// Installation is a ZooKeeper release and the Java that runs it.
type Installation struct {
	Java      string   // the java program
	Classpath []string // jars and folders, in java's order; an element may be a folder followed by /*
	Origin    string   // the file or folder where ZooKeeper was found, for messages
}

// Find looks for ZooKeeper, and for a Java to run it, in the same order as `make deps`.
// It looks for ZooKeeper in ZOOKEEPER_HOME, which if set must have one; where Debian's
// packages install it; and in .deps of the project around the working directory. It looks
// for Java in JAVA_HOME, which if set must have one; in the same .deps; and in PATH. The
// error wraps [ErrNotFound] and says how to get what is missing.
func Find() (Installation, error) {
	deps, err := Deps()
	if err != nil {
		return Installation{}, err
	}
	classpath, origin, err := findZooKeeper(deps)
	if err != nil {
		return Installation{}, err
	}
	java, err := findJava(deps)
	if err != nil {
		return Installation{}, err
	}
	return Installation{Java: java, Classpath: classpath, Origin: origin}, nil
}

// Deps returns the folder into which the project's make targets unpack what tests and
// benchmarks run. It is the nearest .deps next to a go.mod, from the working directory
// upwards, or "" if there is none. Deps does not stop at the first go.mod, because a
// module may be nested in the project's.
func Deps() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", fmt.Errorf("ensemble: where to look for %s: %w", depsFolder, err)
	}
	for {
		deps := filepath.Join(dir, depsFolder)
		if isFile(filepath.Join(dir, "go.mod")) && isFolder(deps) {
			return deps, nil
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", nil
		}
		dir = parent
	}
}

func findZooKeeper(deps string) (classpath []string, origin string, err error) {
	if home := os.Getenv("ZOOKEEPER_HOME"); home != "" {
		classpath = homeClasspath(home)
		if classpath == nil {
			return nil, "", fmt.Errorf("%w: ZOOKEEPER_HOME is %s, and neither it nor its lib folder holds a zookeeper*.jar; %s", ErrNotFound, home, howToGet)
		}
		return classpath, home, nil
	}
	if jar := filepath.Join(systemJars, "zookeeper.jar"); isFile(jar) {
		// The jar's manifest lists its dependencies by absolute path, except a logger and
		// the jars that Netty's handler needs for TLS.
		classpath = []string{jar}
		for _, name := range []string{"slf4j-simple", "netty-codec", "netty-resolver", "netty-transport-native-unix-common"} {
			classpath = append(classpath, filepath.Join(systemJars, name+".jar"))
		}
		return classpath, jar, nil
	}
	if deps != "" {
		if folder := filepath.Join(deps, "zookeeper"); isFile(filepath.Join(folder, "zookeeper.jar")) {
			return []string{filepath.Join(folder, "*")}, folder, nil
		}
	}
	return nil, "", fmt.Errorf("%w; %s", ErrNotFound, howToGet)
}

// homeClasspath returns nil if home has no ZooKeeper. Since 3.5, a release has all jars
// in lib; before, ZooKeeper's own jar was next to lib. A folder made from Debian's
// packages has all jars in one place.
func homeClasspath(home string) []string {
	lib := filepath.Join(home, "lib")
	if !holds(home, "zookeeper*.jar") && !holds(lib, "zookeeper*.jar") {
		return nil
	}
	classpath := []string{filepath.Join(home, "*")}
	// The conf folder comes first: it has the logging configuration, without which a
	// release logs nothing.
	if conf := filepath.Join(home, "conf"); isFolder(conf) {
		classpath = slices.Insert(classpath, 0, conf)
	}
	if isFolder(lib) {
		classpath = append(classpath, filepath.Join(lib, "*"))
	}
	return classpath
}

func findJava(deps string) (string, error) {
	program := filepath.Join("bin", "java")
	if home := os.Getenv("JAVA_HOME"); home != "" {
		java := filepath.Join(home, program)
		if !isFile(java) {
			return "", fmt.Errorf("%w: JAVA_HOME is %s, which holds no %s; unset it, or point it at a Java", ErrNotFound, home, program)
		}
		return java, nil
	}
	if deps != "" {
		if java := filepath.Join(deps, "jre", program); isFile(java) {
			return java, nil
		}
	}
	java, err := exec.LookPath("java")
	if err != nil {
		return "", fmt.Errorf("%w: ZooKeeper is there, Java is not (%w); %s", ErrNotFound, err, howToGet)
	}
	return java, nil
}

func isFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}

func isFolder(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

// holds reports whether folder has a file whose name matches pattern, which must be
// well-formed. It does not use filepath.Glob, because the folder's own name is not a
// pattern.
func holds(folder, pattern string) bool {
	found, err := fs.Glob(os.DirFS(folder), pattern)
	return err == nil && len(found) > 0
}
