package oscms

import "github.com/rfsd/rfsd/rfs/coordination/cms"

// The scripts repeat the transitions of cms in Painless. Their text is constant, so that a node compiles each once; every value is a
// parameter. A script throws a result as "rfsd:<result>" or sets ctx.op to none when it has nothing to do; both leave the document
// unchanged. The conformance suite compares them with the Go functions.
const (
	prelude = `
long num(def d) { return d instanceof Number ? ((Number) d).longValue() : 0L; }
long exponent(def d) {
  if (!(d instanceof Number)) { return 0L; }
  double f = ((Number) d).doubleValue();
  return f > 0 && f < 1048576 && f == Math.floor(f) ? (long) f : 0L;
}
long high(long a, long b) { return a > b ? a : b; }
long low(long a, long b) { return a < b ? a : b; }
long distance(long a, long b) { return a > b ? a - b : b - a; }
boolean some(def d) { return d != null && d != ''; }
void acquit(def s) { s.attempts = 0; s.remove('reached'); s.remove('aloneAt'); s.remove('aloneDied'); s.remove('aloneDeaths'); }
void refuse(String verdict) { throw new IllegalArgumentException('rfsd:' + verdict); }
long clock() { return System.currentTimeMillis(); }
def s = ctx._source;
if (s.scriptVersion != params.scriptVersion) { refuse('foreign'); }
`
	// holderOnly throws unless params.holder holds the item.
	holderOnly = `
if (!some(params.holder) || s.leaseHolderId != params.holder) { refuse('lost'); }
`
	openOnly = `
if (num(s.completedAt) != 0) { refuse('done'); }
`

	acquireScript = prelude + `
long now = clock();
if (num(params.toleranceMs) > 0 && distance(num(params.clientMs), now) > num(params.toleranceMs)) { refuse('skewed'); }
if (num(s.completedAt) != 0) { ctx.op = 'none'; return; }
if (num(s.expiration) * 1000 + num(params.graceMs) >= now) { ctx.op = 'none'; return; }
long before = num(s.attempts);
s.attempts = before + 1;
boolean alone = false;
if (num(params.maxAttempts) > 0) {
  s.attempts = low(s.attempts, num(params.maxAttempts) + 1);
  alone = s.attempts > num(params.maxAttempts);
}
if (num(s.aloneAt) != 0) {
  if (num(s.aloneAt) == num(s.aloneDied)) { s.aloneDeaths = num(s.aloneDeaths) + 1; } else { s.aloneDied = s.aloneAt; s.aloneDeaths = 1; }
  s.aloneAt = 0;
}
long k = low(exponent(s.nextAcquisitionLeaseExponent), num(params.maxExponent));
if (alone && before <= num(params.maxAttempts)) { k = 0; }
long lease = num(params.initialMs);
for (int i = 0; i < k && lease < num(params.maxMs); i++) { lease *= 2; }
lease = low(lease, num(params.maxMs));
s.leaseHolderId = params.holder;
s.expiration = (now + lease + 999) / 1000;
s.leaseExponent = k;
s.nextAcquisitionLeaseExponent = alone ? k : k + 1;
s.acquiredAt = now;
s.engine = 'go';
`

	// workDone stores the results below a watermark.
	workDone = `
s.watermark = params.watermark;
s.counts = params.counts;
s.checks = params.checks;
s.setupMs = params.setupMs;
`

	progressScript = prelude + holderOnly + openOnly + `
if (some(s.successor_items)) { refuse('mismatch'); }
long from = high(num(s.watermark), num(params.begin));
boolean durable = num(params.watermark) > from;
boolean further = num(params.reached) > high(num(s.reached), from);
long stand = high(num(params.begin), high(num(params.watermark), num(params.reached))) + 1;
if (!durable && !further && !(params.alone && stand > num(s.aloneAt))) { ctx.op = 'none'; return; }
if (durable) {
` + workDone + `
}
if (further) { s.reached = params.reached; }
if (durable || further) {
  s.nextAcquisitionLeaseExponent = high(0L, exponent(s.leaseExponent) - 1);
  s.reportedAt = clock();
}
if (params.alone) { s.aloneAt = high(num(s.aloneAt), stand); } else { s.attempts = 0; }
`

	successorsScript = prelude + holderOnly + `
if (some(s.successor_items) && s.successor_items == params.successors) { ctx.op = 'none'; return; }
` + openOnly + `
if (some(s.successor_items)) { refuse('mismatch'); }
if (num(s.end) != 0 && num(params.watermark) >= num(s.end)) { refuse('short'); }
s.successor_items = params.successors;
s.successorExponent = params.successorExponent;
` + workDone + `
acquit(s);
`

	completeScript = prelude + holderOnly + `
String have = some(s.successor_items) ? s.successor_items : '';
if (num(s.completedAt) != 0 && !some(s.status) && have == params.successors) { ctx.op = 'none'; return; }
` + openOnly + `
if (have == '' && params.successors != '') { refuse('unset'); }
if (have != params.successors) { refuse('mismatch'); }
if (have == '' && num(s.end) != 0 && high(num(s.watermark), num(params.watermark)) != num(s.end)) { refuse('short'); }
if (have == '') {
  s.watermark = high(num(s.watermark), num(params.watermark));
  s.counts = params.counts;
  s.checks = params.checks;
  s.setupMs = params.setupMs;
}
s.completedAt = high(1L, clock() / 1000);
acquit(s);
`

	releaseScript = prelude + holderOnly + openOnly + `
s.leaseHolderId = null;
s.expiration = 0;
s.releasedFor = params.cause;
if (!some(s.successor_items) && num(params.watermark) > high(num(s.watermark), num(params.begin))) {
` + workDone + `
  acquit(s);
  s.nextAcquisitionLeaseExponent = exponent(s.leaseExponent);
} else if (!params.counted) {
  s.attempts = high(0L, num(s.attempts) - 1);
  s.remove('aloneAt');
  s.nextAcquisitionLeaseExponent = exponent(s.leaseExponent);
}
if (params.longer) {
  s.nextAcquisitionLeaseExponent = high(exponent(s.nextAcquisitionLeaseExponent), low(exponent(s.leaseExponent) + 1, num(params.maxExponent)));
}
`

	failScript = prelude + `
if (num(s.completedAt) != 0) {
  if (s.status == 'FAILED') { ctx.op = 'none'; return; }
  refuse('done');
}
if (some(s.successor_items)) { refuse('mismatch'); }
long now = clock();
boolean mine = some(params.holder) ? s.leaseHolderId == params.holder : !some(s.leaseHolderId);
if (!mine && num(s.expiration) * 1000 + num(params.graceMs) >= now) { refuse('held'); }
s.completedAt = high(1L, now / 1000);
s.status = 'FAILED';
s.failure = params.reason;
if (some(params.checks)) { s.checks = params.checks; }
`

	reopenScript = prelude + `
if (num(s.completedAt) == 0) { ctx.op = 'none'; return; }
if (s.status != 'FAILED') { refuse('done'); }
s.remove('completedAt');
s.remove('status');
s.remove('failure');
s.leaseHolderId = null;
s.expiration = 0;
s.nextAcquisitionLeaseExponent = 0;
acquit(s);
`

	reclaimScript = prelude + openOnly + `
if (!some(s.leaseHolderId) && num(s.expiration) == 0) { ctx.op = 'none'; return; }
s.leaseHolderId = null;
s.expiration = 0;
s.releasedFor = 'owner died';
s.nextAcquisitionLeaseExponent = exponent(s.leaseExponent);
`
)

// script returns the text for a transition, or "" for an unknown one.
func script(t cms.Transition) string {
	switch t.(type) {
	case cms.Acquire:
		return acquireScript
	case cms.Progress:
		return progressScript
	case cms.SetSuccessors:
		return successorsScript
	case cms.Complete:
		return completeScript
	case cms.Release:
		return releaseScript
	case cms.Fail:
		return failScript
	case cms.Reopen:
		return reopenScript
	case cms.Reclaim:
		return reclaimScript
	}
	return ""
}
