// Package textfile writes the outcome of a run in Prometheus' text format, for the
// textfile collector of its node exporter.
package textfile

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// Run is the outcome of one run.
type Run struct {
	Path   string // of the lock
	Ended  time.Time
	Code   int
	Waited time.Duration // for the lock
	Held   time.Duration // 0 if the lock was not granted
	Ran    bool          // the command ended under the lock
	Lost   bool
}

// The figures that are carried over to the next run.
const (
	success = "zkgrant_run_last_success_timestamp_seconds"
	losses  = "zkgrant_run_losses_total"
)

// Text returns the new content of the file. old is its previous content, which may be
// anything.
func (r Run) Text(old []byte) []byte {
	last, lost := former(old, success, r.Path), former(old, losses, r.Path)
	if r.Ran && r.Code == 0 {
		last = seconds(r.Ended)
	}
	if r.Lost {
		lost++
	}
	var text bytes.Buffer
	write := func(name, kind, help string, value float64) {
		fmt.Fprintf(&text, "# HELP %s %s\n# TYPE %s %s\n%s %s\n", name, help, name, kind, series(name, r.Path), strconv.FormatFloat(value, 'f', -1, 64))
	}
	if last > 0 {
		write(success, "gauge", "When zkgrant last ended after its command had ended with 0 under the lock.", last)
	}
	write("zkgrant_run_last_end_timestamp_seconds", "gauge", "When zkgrant last ended.", seconds(r.Ended))
	write("zkgrant_run_last_exit_code", "gauge", "The exit code of zkgrant when it last ended.", float64(r.Code))
	write("zkgrant_run_last_waited_seconds", "gauge", "How long it waited for the lock.", r.Waited.Seconds())
	write("zkgrant_run_last_held_seconds", "gauge", "How long it held the lock.", r.Held.Seconds())
	write(losses, "counter", "How often the lock was lost.", lost)
	return text.Bytes()
}

func seconds(at time.Time) float64 { return float64(at.UnixMilli()) / 1000 }

func series(name, path string) string {
	return name + `{path="` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`).Replace(path) + `"}`
}

// former returns the value in the old content, or 0.
func former(old []byte, name, path string) float64 {
	for line := range strings.Lines(string(old)) {
		text, ok := strings.CutPrefix(line, series(name, path)+" ")
		if !ok {
			continue
		}
		if value, err := strconv.ParseFloat(strings.TrimSpace(text), 64); err == nil && value >= 0 && value < 1e15 {
			return value
		}
	}
	return 0
}

// Check returns an error if the path is something other than a regular file, such as a
// device or a directory. A missing file is fine.
func Check(file string) error {
	if info, err := os.Stat(file); err == nil && !info.Mode().IsRegular() {
		return errors.New("not a regular file")
	}
	return nil
}

// Write replaces the file by one that describes the run. A reader sees either the old
// content or the new one. If the path is a symbolic link, its target is replaced, or
// created if it is missing.
func (r Run) Write(file string) (err error) {
	if err := Check(file); err != nil {
		return err
	}
	if file, err = target(file); err != nil {
		return err
	}
	old, _ := os.ReadFile(file) // an unreadable file counts as a first run
	next, err := os.CreateTemp(filepath.Dir(file), "."+filepath.Base(file)+".*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = os.Remove(next.Name())
		}
	}()
	const readable = 0o644 // the exporter runs as another user
	_, err = next.Write(r.Text(old))
	for _, then := range []func() error{func() error { return next.Chmod(readable) }, next.Sync} {
		if err == nil {
			err = then()
		}
	}
	if closing := next.Close(); err == nil {
		err = closing
	}
	if err == nil {
		err = os.Rename(next.Name(), file)
	}
	return err
}

// target follows the symbolic links at the path. The target may be missing.
func target(file string) (string, error) {
	if there, err := filepath.EvalSymlinks(file); err == nil {
		return there, nil
	}
	const most = 40 // as on Linux
	for range most {
		next, err := os.Readlink(file)
		if err != nil { // not a link
			return file, nil //nolint:nilerr // writing reports it if it is another error
		}
		if !filepath.IsAbs(next) {
			folder, err := filepath.EvalSymlinks(filepath.Dir(file))
			if err != nil {
				return "", err
			}
			next = filepath.Join(folder, next)
		}
		file = next
	}
	return "", errors.New("too many symbolic links")
}
