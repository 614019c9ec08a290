package oscms

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/base/rest"
	"github.com/rfsd/rfsd/rfs/coordination/cms"
)

// Drop deletes the indices of one session, by their names and never by a pattern; their aliases are deleted with them. It returns the names
// of the indices that existed. No process may work on the session any more.
func Drop(ctx context.Context, c rest.API, sess string) (dropped []string, err error) {
	if err := cms.CheckSession(sess); err != nil {
		return nil, err
	}
	items, itemsAlias, control, controlAlias := names(sess)
	// An index under an alias's name exists when the real one was deleted in the middle of an update: OpenSearch then creates that index in
	// spite of require_alias.
	tasks, tasksAlias := taskNames(sess)
	apart, apartAlias := apartNames(sess)
	all := []string{tasks, tasksAlias, apart, apartAlias, items, itemsAlias, control, controlAlias}
	for range dropTries {
		if dropped, err = existing(ctx, c, all); err != nil || len(dropped) == 0 {
			return dropped, err
		}
		// One request deletes all or none, so that no session is half deleted. With expand_wildcards alone the deletion of a missing index
		// would be acknowledged.
		query := url.Values{"expand_wildcards": {"none"}, "ignore_unavailable": {jsonFalse}, "allow_no_indices": {jsonFalse}}
		status, answer, err := c.Do(ctx, http.MethodDelete, "/"+strings.Join(dropped, ","), query, nil)
		switch {
		case err != nil:
			return nil, errors.Join(fmt.Errorf("remove %s: %w", strings.Join(dropped, ", "), err), fault.ErrUnavailable)
		case status == http.StatusOK:
			return dropped, nil
		case status != http.StatusNotFound: // another process deletes them
			return nil, fmt.Errorf("remove %s: status %d: %.300s: %w", strings.Join(dropped, ", "), status, answer, fault.ErrConfig)
		}
	}
	return nil, fmt.Errorf("remove %s: others create and delete them: %w", strings.Join(dropped, ", "), fault.ErrUnavailable)
}

// dropTries is the number of attempts to delete indices that other processes delete, too.
const dropTries = 5

// existing returns the names that are names of indices, and not of aliases, in their order.
func existing(ctx context.Context, c rest.API, names []string) (found []string, err error) {
	var is map[string]json.RawMessage
	query := url.Values{"ignore_unavailable": {"true"}, "allow_no_indices": {"true"}, "expand_wildcards": {"none"}, "filter_path": {"*.settings.index.uuid"}}
	if err := rest.Get(ctx, c, "/"+strings.Join(names, ",")+"/_settings", query, &is); err != nil {
		return nil, fmt.Errorf("indices of the session: %w", err)
	}
	for _, name := range names {
		if is[name] != nil {
			found = append(found, name)
		}
	}
	return found, nil
}
