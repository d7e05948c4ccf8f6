// Package browser has the tests of the pages in a real browser. They need Chromium; see bench/internal/browser.
package browser
