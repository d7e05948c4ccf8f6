// Package browser tests the pages in a real browser. The tests need Chromium; see
// bench/internal/browser.
package browser
