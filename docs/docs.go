// Package docs holds the pages that the status page of a node links to, so that a node can serve them.
package docs

import "embed"

// Pages has the pages, by the names of their files.
//
//go:embed FAILED-DOCUMENTS.md FOLLOW.md TROUBLESHOOTING.md
var Pages embed.FS
