package board

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"io/fs"
	"net/http"
	"path"
	"slices"
	"strings"
	"time"
)

//go:embed page
var page embed.FS

// policy lets the page use its own files and data only.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// sending is how long a page may take for one update.
const sending = 30 * time.Second

// ServeHTTP serves the page at /, its files, its stream at /events, /queues.json, and
// /revoke.
func (b *Board) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Security-Policy", policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cache-Control", "no-store")
	switch r.URL.Path {
	case "": // the prefix without its slash, which would break relative URLs
		at, _, _ := strings.Cut(r.RequestURI, "?")
		h.Set("Location", "./"+path.Base(at)+"/")
		w.WriteHeader(http.StatusTemporaryRedirect)
	case "/events":
		b.only(b.stream, http.MethodGet, http.MethodHead)(w, r)
	case "/queues.json":
		b.only(b.queues, http.MethodGet, http.MethodHead)(w, r)
	case "/revoke":
		b.only(b.revoke, http.MethodPost)(w, r)
	default:
		b.only(b.file, http.MethodGet, http.MethodHead)(w, r)
	}
}

// only refuses all methods except these.
func (b *Board) only(next http.HandlerFunc, methods ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if !slices.Contains(methods, r.Method) {
			w.Header().Set("Allow", strings.Join(methods, ", "))
			http.Error(w, "want "+strings.Join(methods, " or "), http.StatusMethodNotAllowed)
			return
		}
		next(w, r)
	}
}

// file serves the files of the page.
func (b *Board) file(w http.ResponseWriter, r *http.Request) {
	name := strings.TrimPrefix(r.URL.Path, "/")
	if name == "" {
		name = "index.html"
	}
	text, err := fs.ReadFile(page, path.Join("page", path.Clean("/"+name)))
	if err != nil || "/"+name != path.Clean("/"+name) {
		http.NotFound(w, r)
		return
	}
	sum := sha256.Sum256(text)
	w.Header().Set("Cache-Control", "no-cache") // requested again each time, and usually answered with 304
	w.Header().Set("ETag", `"`+hex.EncodeToString(sum[:8])+`"`)
	http.ServeContent(w, r, name, time.Time{}, bytes.NewReader(text))
}
