package fault

import "testing"

func TestExplain(t *testing.T) {
	for _, c := range []struct {
		name         string
		status       int
		kind, reason string
		text, remedy string
	}{
		{"the cluster's words", 400, "mapper_parsing_exception", "no handler for [x]", "mapper_parsing_exception: no handler for [x]", ""},
		{"a type without a meaning", 500, "illegal_state_exception", "alias [a] has more than one write index [b,c]", "alias [a] has more than one write index [b,c]", ""},
		{"alone it is all that is known", 500, "illegal_state_exception", "", "illegal_state_exception", ""},
		{"a reason alone", 502, "", "Bad Gateway", "Bad Gateway", ""},
		{"a type alone", 500, "null_pointer_exception", "", "null_pointer_exception", ""},
		{"nothing", 502, "", "", "", ""},
		{"full disks: no new index", 403, "index_create_block_exception", "blocked by: [FORBIDDEN/10/cluster create-index blocked (api)];",
			"the disks of the cluster are above their high watermark, so that it creates no index", remedyDisks},
		{"full disks: no documents", 429, "cluster_block_exception", "index [a] blocked by: [TOO_MANY_REQUESTS/12/disk usage exceeded flood-stage watermark, index has read-only-allow-delete block];",
			"a disk of the cluster is above its flood stage, so that the index takes no documents", remedyDisks},
		{"another block", 403, "cluster_block_exception", "index [a] blocked by: [FORBIDDEN/8/index write (api)];",
			"cluster_block_exception: index [a] blocked by: [FORBIDDEN/8/index write (api)];", ""},
		{"a missing permission", 403, "security_exception", "no permissions for [indices:admin/create] and User [name=half, backend_roles=[], requestedTenant=null]",
			"no permissions for [indices:admin/create]", remedyPermissions},
		{"a missing permission of a HEAD request", 403, "", "", "a permission of the user is missing", remedyPermissions},
		{"a page of a proxy", 403, "", "<html>Forbidden</html>", "<html>Forbidden</html>", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			if text, remedy := Explain(c.status, c.kind, c.reason); text != c.text || remedy != c.remedy {
				t.Errorf("%q, %q", text, remedy)
			}
		})
	}
}
