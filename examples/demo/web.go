package main

import (
	"context"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"strings"
	"time"
)

//go:embed page
var files embed.FS

// slow is how long a browser may take to send a request, or to read an update.
const slow = 5 * time.Second

// serve serves the page until Close.
func serve(listener net.Listener, s *stage, fail context.CancelCauseFunc) *http.Server {
	server := &http.Server{Handler: handler(s), ReadHeaderTimeout: slow}
	go func() {
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			fail(err)
		}
	}()
	return server
}

// handler serves the page. Another site can neither press its buttons (cross-origin
// protection) nor read it through DNS rebinding (local).
func handler(s *stage) http.Handler {
	page, err := fs.Sub(files, "page")
	if err != nil {
		panic(err) // it is embedded
	}
	mux := http.NewServeMux()
	mux.Handle("GET /", http.FileServerFS(page))
	mux.HandleFunc("GET /events", s.stream)
	mux.HandleFunc("GET /about", s.about)
	mux.HandleFunc("POST /do", s.press)
	secured := http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		rw.Header().Set("Content-Security-Policy", "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "+
			"img-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'")
		rw.Header().Set("X-Content-Type-Options", "nosniff")
		rw.Header().Set("Cache-Control", "no-store")
		mux.ServeHTTP(rw, r)
	})
	return local(http.NewCrossOriginProtection().Handler(secured))
}

// local refuses requests whose Host is not this machine. Otherwise a foreign site whose
// name resolves to loopback would be same-origin with the demo.
func local(next http.Handler) http.Handler {
	return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		host, _, err := net.SplitHostPort(r.Host)
		if err != nil {
			host = r.Host
		}
		if ip := net.ParseIP(strings.Trim(host, "[]")); host != "localhost" && (ip == nil || !ip.IsLoopback()) {
			http.Error(rw, "this page is for this machine: ask for localhost", http.StatusMisdirectedRequest)
			return
		}
		next.ServeHTTP(rw, r)
	})
}

// about sends what does not change.
func (s *stage) about(rw http.ResponseWriter, _ *http.Request) {
	rw.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(rw).Encode(map[string]any{ // nobody reads it if the write fails
		"names": s.names, "where": s.where.String(), "timeout": s.where.zk.Timeout,
		"fault": s.where.Fault, "cannot": s.where.Cannot,
	})
}

// press carries out the press of a button.
func (s *stage) press(rw http.ResponseWriter, r *http.Request) {
	err := s.do( //nolint:contextcheck // a fault outlives its request
		r.URL.Query().Get("what"), r.URL.Query().Get("who"))
	switch {
	case err == nil:
		rw.WriteHeader(http.StatusNoContent)
	case errors.Is(err, errRefused):
		http.Error(rw, err.Error(), http.StatusConflict)
	default:
		http.Error(rw, err.Error(), http.StatusInternalServerError)
	}
}

// stream sends the picture now and after each change.
func (s *stage) stream(rw http.ResponseWriter, r *http.Request) {
	rw.Header().Set("Content-Type", "text/event-stream")
	out := http.NewResponseController(rw)
	for {
		text, changed, err := s.log.encode()
		if err != nil {
			return
		}
		if err := out.SetWriteDeadline(time.Now().Add(slow)); err != nil {
			return
		}
		if _, err := fmt.Fprintf(rw, "data: %s\n\n", text); err != nil {
			return
		}
		if err := out.Flush(); err != nil {
			return
		}
		select {
		case <-changed:
		case <-r.Context().Done():
			return
		}
	}
}
