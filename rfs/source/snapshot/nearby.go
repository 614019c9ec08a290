package snapshot

import (
	"context"
	"io"
	"io/fs"
	"path"
	"strings"
	"time"

	"github.com/rfsd/rfsd/rfs/source/repo"
)

const (
	patience  = 10 * time.Second // for the search for a repository nearby
	maxLooked = 10_000           // blobs to list in it
	maxNamed  = 5                // repositories that an error names
)

// noRepository is the fs.ErrNotExist of a location without a repository; it holds the message.
type noRepository string

func (e noRepository) Error() string { return string(e) }

// Is reports whether target is fs.ErrNotExist.
func (noRepository) Is(target error) bool { return target == fs.ErrNotExist }

// whereInstead returns the addresses to use instead of r, which is not a repository: the repositories one level above and one below.
func whereInstead(ctx context.Context, r Repository) string {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	found := append(oneAbove(ctx, r), oneBelow(ctx, r)...)
	switch {
	case len(found) == 0:
		return "give the folder or prefix that holds index.latest"
	case len(found) > maxNamed:
		return "there are repositories in " + strings.Join(found[:maxNamed], ", ") + " and more: give one of them"
	case len(found) > 1:
		return "there are repositories in " + strings.Join(found, ", ") + ": give one of them"
	}
	return "there is one in " + found[0] + ": give that"
}

// oneAbove returns the address of the repository that holds r as a folder.
func oneAbove(ctx context.Context, r Repository) []string {
	within, ok := r.(interface {
		Above() (repo.Repository, bool)
	})
	if !ok {
		return nil
	}
	upper, ok := within.Above()
	if !ok {
		return nil
	}
	if !holdsCatalog(ctx, upper, "") {
		return nil
	}
	return []string{upper.URI()}
}

// oneBelow returns the addresses of the repositories that are folders of r.
func oneBelow(ctx context.Context, r Repository) (found []string) {
	looked, last := 0, ""
	for b, err := range r.List(ctx, "") {
		if looked++; err != nil || looked > maxLooked || len(found) > maxNamed {
			break
		}
		folder, name := path.Split(b.Name)
		folder = strings.TrimSuffix(folder, "/")
		if folder == "" || folder == last || strings.Contains(folder, "/") || name != "index.latest" && name != "index" {
			continue
		}
		last = folder
		if !holdsCatalog(ctx, r, folder+"/") {
			continue
		}
		found = append(found, strings.TrimSuffix(address(r), "/")+"/"+folder)
	}
	return found
}

// holdsCatalog reports whether a folder, "" or ending in a slash, has a generation number of a catalog, or a catalog from before 5.0.
func holdsCatalog(ctx context.Context, r Repository, folder string) bool {
	if size, err := r.Stat(ctx, folder+"index.latest"); err == nil {
		return size == 8
	}
	const begin = `{"snapshots"`
	in, err := r.Open(ctx, folder+"index", 0, int64(len(begin)))
	if err != nil {
		return false
	}
	defer in.Close()
	b := make([]byte, len(begin))
	_, err = io.ReadFull(in, b)
	return err == nil && string(b) == begin
}
