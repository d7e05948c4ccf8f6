package main

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/session"
	"github.com/zkgrant/zkgrant/session/sasl"
)

// settings holds the global flags, and the console for messages.
type settings struct {
	*console

	servers  string
	timeout  time.Duration // of the session
	tick     time.Duration // upper bound for the servers' tickTime; 0: the library's default
	authFile string
	saslFile string
	tls      struct{ ca, cert, key, name string }
	acl      string
	asKazoo  bool
	json     bool
	verbose  bool
	quiet    bool
}

// bind gives the command line its global flags.
func (s *settings) bind(root *cobra.Command) {
	f := root.PersistentFlags()
	f.StringVarP(&s.servers, "servers", "s", "", "the ZooKeeper `servers`, as host:port,host:port/chroot; there is no default")
	f.DurationVar(&s.timeout, "session-timeout", 10*time.Second, "the session timeout to request")
	f.DurationVar(&s.tick, "tick-time", 0, "the servers' tickTime, if it is longer than 2s or than half the session timeout")
	f.StringVar(&s.authFile, "auth-file", "", "a `file` with one identity per line, such as digest:user:password")
	f.StringVar(&s.saslFile, "sasl-file", "", "authenticate with SASL DIGEST-MD5; the `file` has one line, user:password")
	f.StringVar(&s.tls.ca, "tls-ca", "", "connect with TLS, and trust the authorities in this PEM `file`")
	f.StringVar(&s.tls.cert, "tls-cert", "", "connect with TLS, and the client certificate in this PEM `file`")
	f.StringVar(&s.tls.key, "tls-key", "", "the key of the client certificate, a PEM `file`")
	f.StringVar(&s.tls.name, "tls-server-name", "", "connect with TLS, and expect server certificates for this `host` name")
	f.StringVar(&s.acl, "acl", "", "the access control `list` of the nodes that zkgrant creates, parents included: world, creator, or\nscheme:id:perms,... as in setAcl of zkCli.sh (default world)")
	_ = root.RegisterFlagCompletionFunc("acl", cobra.FixedCompletions([]string{aclCreator, aclWorld}, cobra.ShellCompDirectiveNoFileComp))
	f.BoolVar(&s.asKazoo, "as-kazoo", false, "use kazoo's names, for locks that kazoo programs use")
	f.BoolVar(&s.json, "json", false, "write one JSON object per line, for programs")
	f.BoolVarP(&s.verbose, "verbose", "v", false, "report everything that happens to the lock")
	f.BoolVarP(&s.quiet, "quiet", "q", false, "report only failures and the loss of the lock")
	root.MarkFlagsMutuallyExclusive("verbose", "quiet")
	s.console = newConsole(os.Stderr, s)
	root.PersistentPreRunE = func(cmd *cobra.Command, _ []string) error {
		return errors.Join(noneEmpty(cmd.Flags()), fromEnvironment(f))
	}
}

// noneEmpty returns an error for each text flag that is given without a text: the shell
// variable in --tls-ca "$CA" may be unset, and the default would be a connection without
// TLS. Only --data may be empty.
func noneEmpty(flags *pflag.FlagSet) (failed error) {
	flags.Visit(func(f *pflag.Flag) {
		if f.Value.Type() == "string" && f.Value.String() == "" && f.Name != "data" {
			failed = errors.Join(failed, fmt.Errorf("--%s must not be empty", f.Name))
		}
	})
	return failed
}

// fromEnvironment sets flags from ZKGRANT_ variables. Flags on the command line take
// precedence. An empty variable counts as unset, since that is how a unit or a compose
// file removes one. So does a variable with the default value: ZKGRANT_QUIET=false does
// not conflict with ZKGRANT_VERBOSE=true.
func fromEnvironment(flags *pflag.FlagSet) error {
	var failed error
	loud := flags.Changed("verbose") || flags.Changed("quiet")
	flags.VisitAll(func(f *pflag.Flag) {
		name := "ZKGRANT_" + strings.ToUpper(strings.ReplaceAll(f.Name, "-", "_"))
		if value := os.Getenv(name); value != "" && value != f.DefValue && !f.Changed && !(loud && (f.Name == "verbose" || f.Name == "quiet")) {
			if err := flags.Set(f.Name, value); err != nil {
				failed = errors.Join(failed, fmt.Errorf("%s: %w", name, err))
			}
		}
	})
	return failed
}

// open returns a coordinator. It does not wait for a server, but for the files with
// secrets.
func (s *settings) open(more ...coordinator.Option) (*coordinator.Coordinator, error) {
	options, err := s.options()
	if err != nil {
		return nil, err
	}
	return coordinator.Open(s.servers, append(options, more...)...)
}

// options returns the session options that the flags ask for.
func (s *settings) options() ([]coordinator.Option, error) {
	if s.servers == "" {
		return nil, errors.New("give the ZooKeeper servers with --servers host:port,... or in ZKGRANT_SERVERS; there is no default")
	}
	options := []coordinator.Option{
		coordinator.WithSessionTimeout(s.timeout),
		coordinator.WithTickTime(s.tick),
		coordinator.WithSlog(warnings{s.console}),
	}
	again, err := s.secrets()
	if err != nil {
		return nil, err
	}
	access, err := s.access()
	return slices.Concat(options, again, access), err
}

// secrets returns the options that come from files. Each file is read again at each dial.
func (s *settings) secrets() (options []coordinator.Option, err error) {
	if s.authFile != "" {
		identities, err := readAgain(s.console, s.identities)
		if err != nil {
			return nil, err
		}
		options = append(options, session.OptionFunc(func(c *session.Config) { c.Identities = identities.now }))
	}
	if s.tls != (struct{ ca, cert, key, name string }{}) {
		config, err := readAgain(s.console, s.encryption)
		if err != nil {
			return nil, err
		}
		options = append(options, session.OptionFunc(func(c *session.Config) { c.TLS = config.now }))
	}
	if s.saslFile != "" {
		mechanism, err := readAgain(s.console, s.mechanism)
		if err != nil {
			return nil, err
		}
		options = append(options, coordinator.WithSASL(mechanismAgain{mechanism.last, mechanism}))
	}
	return options, nil
}

// identities reads the --auth-file.
func (s *settings) identities() (all []session.Auth, err error) {
	file, err := os.Open(s.authFile)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }() // it was only read
	lines := bufio.NewScanner(file)
	for n := 1; lines.Scan(); n++ {
		line := strings.TrimSpace(lines.Text())
		if line == "" || line[0] == '#' {
			continue
		}
		scheme, identity, ok := strings.Cut(line, ":")
		if !ok {
			// The line may be a secret, so it is not shown.
			return nil, fmt.Errorf("%s: line %d must be scheme:identity, such as digest:user:password", s.authFile, n)
		}
		all = append(all, session.Auth{Scheme: scheme, Auth: []byte(identity)})
	}
	if len(all) == 0 && lines.Err() == nil {
		return nil, fmt.Errorf("%s contains no identity", s.authFile)
	}
	return all, lines.Err()
}

// mechanism reads the --sasl-file.
func (s *settings) mechanism() (sasl.Mechanism, error) {
	text, err := os.ReadFile(s.saslFile)
	if err != nil {
		return nil, err
	}
	line := strings.TrimRight(string(text), "\r\n")
	user, password, ok := strings.Cut(line, ":")
	if !ok || strings.Contains(line, "\n") {
		return nil, fmt.Errorf("%s must have one line, user:password", s.saslFile) // the line may be a secret, so it is not shown
	}
	return sasl.DigestMD5(user, password), nil
}

// encryption reads the TLS files.
func (s *settings) encryption() (*tls.Config, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: s.tls.name}
	if s.tls.ca != "" {
		pem, err := os.ReadFile(s.tls.ca)
		if err != nil {
			return nil, err
		}
		if config.RootCAs = x509.NewCertPool(); !config.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("%s contains no certificate", s.tls.ca)
		}
	}
	if s.tls.cert != "" || s.tls.key != "" {
		pair, err := tls.LoadX509KeyPair(s.tls.cert, s.tls.key)
		if err != nil {
			return nil, fmt.Errorf("--tls-cert and --tls-key: %w", err)
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return config, nil
}

// ask runs f with a connected coordinator, for a command that holds no lock. A server has
// the session timeout to answer.
func (s *settings) ask(ctx context.Context, f func(context.Context, *coordinator.Coordinator) error) (err error) {
	c, err := s.open()
	if err != nil {
		return err
	}
	defer func() {
		if closing := c.Close(); closing != nil && err == nil {
			err = fmt.Errorf("closing the session: %w", closing)
		}
	}()
	first, cancel := context.WithTimeoutCause(ctx, s.timeout, fmt.Errorf("no server answered within %v", s.timeout))
	defer cancel()
	if err := c.Ready(first); err != nil {
		return err
	}
	s.connected.Store(true)
	return f(ctx, c)
}

// lockOptions returns the options that must be the same for all users of a lock.
func (s *settings) lockOptions() []coordinator.LockOption {
	if s.asKazoo {
		return []coordinator.LockOption{coordinator.AsKazoo()}
	}
	return nil
}
