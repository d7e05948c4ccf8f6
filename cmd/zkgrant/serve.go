package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"
)

const (
	silence  = 10 * time.Second // for the header of a request
	idle     = 3 * time.Minute  // between two requests on a connection; scrapers return earlier
	farewell = 2 * time.Second  // for the requests in progress to end
)

// announce prints the address of the page, and returns the handler to serve. On a
// loopback address the handler refuses requests that name another host. If announce
// fails, it closes the listener.
func (s *settings) announce(out io.Writer, listener net.Listener, handler http.Handler, page string) (http.Handler, error) {
	if address, ok := listener.Addr().(*net.TCPAddr); ok && address.IP.IsLoopback() {
		handler = local(handler)
	} else {
		const warning = "every client that can reach this address sees the locks"
		s.say(report{Event: "warned", Error: listener.Addr().String() + ": " + warning, loud: true}, "%s: %s", listener.Addr(), warning)
	}
	url := "http://" + listener.Addr().String() + "/" + page
	var err error
	if s.json {
		err = object(out, struct {
			Event string `json:"event"`
			URL   string `json:"url"`
		}{"serving", url})
	} else {
		_, err = fmt.Fprintln(out, url)
	}
	if err != nil {
		return nil, errors.Join(err, listener.Close())
	}
	return handler, nil
}

// local refuses requests that name another host. Otherwise a foreign site could make its
// name resolve to this machine, and a browser would treat our pages as part of that site.
func local(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		host, _, err := net.SplitHostPort(r.Host)
		if err != nil { // for port 80 a browser sends no port
			host = strings.TrimSuffix(strings.TrimPrefix(r.Host, "["), "]")
		}
		if ip := net.ParseIP(host); host != "localhost" && (ip == nil || !ip.IsLoopback()) {
			http.Error(w, "this page is for this machine only: use localhost in its address", http.StatusMisdirectedRequest)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// serve serves until ctx ends, and closes the listener.
func serve(ctx context.Context, listener net.Listener, handler http.Handler) error {
	server := &http.Server{Handler: handler, ReadHeaderTimeout: silence, IdleTimeout: idle}
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	select {
	case err := <-served:
		return err
	case <-ctx.Done():
	}
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), farewell)
	defer cancel()
	err := server.Shutdown(last)
	if errors.Is(err, context.DeadlineExceeded) { // a request still waits for ZooKeeper
		err = server.Close()
	}
	if serving := <-served; !errors.Is(serving, http.ErrServerClosed) {
		err = errors.Join(err, serving)
	}
	return err
}
