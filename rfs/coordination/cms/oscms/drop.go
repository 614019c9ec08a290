package oscms

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/base/rest"
)

// Drop deletes the indices of one session, by their names and never by a pattern; their aliases are deleted with them. It returns the names
// of the indices that existed. No process may work on the session any more.
func Drop(ctx context.Context, c rest.API, sess string) (dropped []string, err error) {
	if !session.MatchString(sess) {
		return nil, fmt.Errorf("session name %q: only a-z, 0-9 and -, at most 64: %w", sess, fault.ErrConfig)
	}
	items, itemsAlias, control, controlAlias := names(sess)
	// The items are deleted before the records, so that the next call finds a half-deleted session by its records. An index under an
	// alias's name exists when the real one was deleted in the middle of an update: OpenSearch then creates that index in spite of
	// require_alias. Deleting an alias is refused with 400.
	tasks, tasksAlias := taskNames(sess)
	apart, apartAlias := apartNames(sess)
	// With expand_wildcards alone the deletion of a missing index would be acknowledged.
	query := url.Values{"expand_wildcards": {"none"}, "ignore_unavailable": {jsonFalse}, "allow_no_indices": {jsonFalse}}
	for _, index := range []string{tasks, tasksAlias, apart, apartAlias, items, itemsAlias, control, controlAlias} {
		status, answer, err := c.Do(ctx, http.MethodDelete, "/"+url.PathEscape(index), query, nil)
		switch {
		case err != nil:
			return dropped, errors.Join(fmt.Errorf("remove %s: %w", index, err), fault.ErrUnavailable)
		case status == http.StatusNotFound, status == http.StatusBadRequest && index != items && index != control && index != tasks && index != apart:
		case status != http.StatusOK:
			return dropped, fmt.Errorf("remove %s: status %d: %.300s: %w", index, status, answer, fault.ErrConfig)
		default:
			dropped = append(dropped, index)
		}
	}
	return dropped, nil
}
