#!/usr/bin/env bash
# night.sh [PART...]: what `make ci` has no time for, one part after the other, whatever fails; all of them by default.
# Ends with one line a part: its time and its result. Logs stay in RFSD_NIGHT_LOGS, or in the directory named at the end.
set -uo pipefail
cd "$(dirname "$0")/.."
logs=${RFSD_NIGHT_LOGS:-$(mktemp -d "${TMPDIR:-/tmp}/rfsd-night.XXXXXX")}
mkdir -p "$logs"
export RFSD_LOGS=$logs RFSD_DRAW=all
all=(unused servers stories snapshots drawn sources imports daemon kills reach memory namespaces hints progress rate scroll consume processes stores clusters corrupt large attacks sim fleet mutants fuzz verify trial packages cross bench)

e2e() { E2EPACKAGES=${E2EPACKAGES:-./testing/e2e/...} E2EFLAGS="-timeout 300m $1" testing/e2e.sh e2e ${TARGETS:-2.19.4 3.8.0}; }

# part NAME: runs it. Each is a verb of the Makefile, or the tests behind one variable.
part() {
  case $1 in
    unused) testing/unused.sh ;;
    servers) make e2e ;;
    stories) testing/gotest.sh stories -count=1 -timeout 300m ./testing/stories -stories=${STORIES:-2000} && RFSD_E2E=1 testing/gotest.sh stories-node -count=1 -timeout 120m ./testing/stories -run Story -node=2.19.4 -stories=5 ;;
    snapshots) RFSD_E2E=1 RFSD_RANDOM_TURN=1 RFSD_RANDOM=${RFSD_RANDOM:-7.17.29 os2.19.4 9.5.3 6.8.23 os1.3.14 8.19.21 os3.8.0 os3.9.0} testing/gotest.sh snapshots -count=1 -timeout 60m ./testing/snapgen -run RandomSnapshots ;;
    drawn) e2e "-run HostileControlIndex|LandedEqualTheTruth" ;;
    sources) RFSD_SOURCES=all e2e "-run EverySource|Source|VerifyAgrees" ;;
    imports) RFSD_IMPORT=all e2e "-run Import" && RFSD_IMPORT=all testing/gotest.sh importer -count=1 -timeout 120m ./rfs/stream/importer ;;
    daemon) RFSD_DAEMON_LONG=1 e2e "-run Daemon|Nodes|Machine|FirstContact|SilentTarget" ;;
    kills) RFSD_KILLS=${RFSD_KILLS:-200} TARGETS=2.19.4 e2e "-run RandomKills|PartsOfAShard" ;;
    reach) RFSD_REACH=${RFSD_REACH:-$(date +%s)} e2e "-run Reach" ;;
    memory) RFSD_CLUSTERS=1 TARGETS=2.19.4 e2e "-run DocumentOf120MB|KillsAtRandom|AFailoverOfTheSource" ;;
    namespaces) RFSD_NETNS=1 TARGETS=2.19.4 e2e "-run FiveMachines" ;;
    hints) RFSD_HINTS=${RFSD_HINTS:-5} TARGETS=2.19.4 e2e "-run TimeWithoutHints" ;;
    progress) RFSD_WATCH=${RFSD_WATCH:-300} TARGETS=2.19.4 e2e "-run ProgressIsTrue" ;;
    rate) RFSD_RATE=1 TARGETS=2.19.4 e2e "-run RateWhileNodes|OneShardHas" ;;
    scroll) RFSD_SCROLL=${RFSD_SCROLL:-120000} TARGETS=2.19.4 e2e "-run FasterThanByAScroll" ;;
    consume) RFSD_CONSUME=${RFSD_CONSUME:-1000000} TARGETS=2.19.4 e2e "-run Consume|TopicArrives" ;;
    processes) RFSD_TEST_FLEET=1 E2EPACKAGES=./rfs/coordination/cms/... TARGETS=2.19.4 e2e "-run Processes|KilledAtEvery" && RFSD_TEST_FLEET=1 TARGETS=2.19.4 e2e "-run TwoHundredWorkers|TwoThousandIndices" ;;
    stores) RFSD_SOURCES=all E2EPACKAGES=./rfs/coordination/cms/... e2e "-run Conformance" ;;
    clusters) E2EPACKAGES=./testing/cluster TARGETS=2.19.4 e2e "" ;;
    corrupt) make corrupt ;;
    large) RFSD_ENTRIES=300000 testing/gotest.sh large -count=1 -timeout 60m -run 'LargeCatalogs|Interruption' ./cmd/rfsctl ;;
    attacks) RFSD_ATTACKS=all testing/gotest.sh attacks -count=1 -timeout 200m ./testing/abuse ;;
    sim) make sim SEEDS=100 SIMTIME=2h SIMLIMIT=5h ;;
    fleet) make fleet ;;
    mutants) make mutants ;;
    fuzz) make fuzz FUZZTIME="${FUZZTIME:-10m}" ;;
    verify) RFSD_TARGETS=3.8.0 TARGETS=3.8.0 e2e "-run VerifyAgreesWithOther|RedriveAfter|ClassesOfFailures|TrialRun|Undo" && RFSD_VERIFY=1 RFSD_SOURCES=all e2e "-run VerifyOf|VerifyAgrees|VerifyReads|TakesOverAComparison" ;;
    trial) RFSD_TRIAL=1 e2e "-run TrialRunForetells|EstimatesOfTrialRuns" ;;
    packages) make packages-test ;;
    cross) make cross ;;
    bench) make bench ;;
    *) echo "night: no part $1; there are: ${all[*]}" >&2; return 2 ;;
  esac
}

make build || exit 1
[ $# -gt 0 ] || set -- "${all[@]}"
summary=() failed=0
for name in "$@"; do
  begin=$SECONDS code=0
  export RFSD_LOGS=$logs/$name
  mkdir -p "$RFSD_LOGS"
  part "$name" >"$logs/$name.log" 2>&1 </dev/null || code=$?
  verdict=ok
  if [ "$code" != 0 ]; then
    verdict="FAILED ($code)"
    failed=1
    tail -20 "$logs/$name.log"
  fi
  skips=$(find "$RFSD_LOGS" -name '*.log' -exec testing/skipped.sh skips {} + | sed -n 's/^skips: \([0-9]*\) tests.*/, \1 tests did not run/p')
  summary+=("$(printf '%-12s %-12s %4d min %02d s%s' "$name" "$verdict" $(((SECONDS - begin) / 60)) $(((SECONDS - begin) % 60)) "$skips")")
  echo "night: ${summary[-1]}"
done
echo
printf '%s\n' "${summary[@]}"
echo "night: $([ "$failed" = 0 ] && echo passed || echo FAILED); logs in $logs"
exit "$failed"
