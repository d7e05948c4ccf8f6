package peers

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"time"

	"github.com/zkgrant/zkgrant/session/zktest/ensemble"
)

// Server is a ZooKeeper server that all compared libraries share, either standalone or
// part of an ensemble.
type Server struct {
	Installation ensemble.Installation // where it runs from
	Addr         string                // host:port
	Version      string                // of ZooKeeper, such as 3.8.0
	JavaVersion  string                // such as 17.0.15
	Servers      *ensemble.Ensemble    // this one, and those beside it

	index  int // in Servers
	folder string
}

// RAMDisk returns a folder whose files are in memory, or "" if none is known on this
// machine. With such a folder, the speed of the disk does not affect a comparison of
// servers.
func RAMDisk() string {
	const shared = "/dev/shm"
	folder, err := os.MkdirTemp(shared, "zkgrant-try")
	if err != nil || os.Remove(folder) != nil {
		return ""
	}
	return shared
}

// StartServer starts n servers in a folder below parent, or in the default temporary
// directory if parent is empty, and returns the first one once all serve. The caller must
// Close it, which stops all of them. The error wraps [ensemble.ErrNotFound] if there is no
// ZooKeeper on this machine.
func StartServer(ctx context.Context, parent string, n int, settings ...ensemble.Setting) (*Server, error) {
	s := new(Server)
	err := s.launch(ctx, parent, n, settings)
	if err == nil {
		err = s.describe(ctx, 0)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("peers: %w", err), s.Close())
	}
	return s, nil
}

// launch starts n servers in a folder below parent. After an error some of them may still
// be running.
func (s *Server) launch(ctx context.Context, parent string, n int, settings []ensemble.Setting) (err error) {
	if s.Installation, err = ensemble.Find(); err != nil {
		return err
	}
	if s.folder, err = os.MkdirTemp(parent, "zkgrant-bench"); err != nil {
		return err
	}
	s.Servers, err = ensemble.Launch(ctx, s.Installation, s.folder, n, settings...)
	return err
}

// describe fills in s for the server with that index.
func (s *Server) describe(ctx context.Context, i int) (err error) {
	s.index, s.Addr = i, s.Servers.Addr(i)
	if s.Version, err = s.Servers.Version(ctx, i); err != nil {
		return err
	}
	s.JavaVersion, err = javaVersion(ctx, s.Installation.Java)
	return err
}

// ProcessorTime returns the server's CPU time so far. If the system does not report it,
// the error wraps [errors.ErrUnsupported].
func (s *Server) ProcessorTime() (time.Duration, error) { return ProcessorTime(s.Servers.Pid(s.index)) }

// Counters returns the numbers in the server's answer to mntr.
func (s *Server) Counters(ctx context.Context) (map[string]float64, error) {
	return s.Servers.Counters(ctx, s.index)
}

// Close ends the server and those beside it, and removes their data.
func (s *Server) Close() error {
	var killed error
	if s.Servers != nil {
		killed = s.Servers.Close()
	}
	return errors.Join(killed, os.RemoveAll(s.folder)) // a missing folder is not an error
}

// javaVersion returns the version of a java program.
func javaVersion(ctx context.Context, java string) (string, error) {
	said, err := exec.CommandContext(ctx, java, "-version").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%s -version: %w", java, err)
	}
	version := regexp.MustCompile(`version "([^"]+)"`).FindSubmatch(said)
	if version == nil {
		return "", fmt.Errorf("%s -version says %q", java, said)
	}
	return string(version[1]), nil
}
