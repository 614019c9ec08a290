package importer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"time"

	"github.com/rfsd/rfsd/rfs/bulk"
	"github.com/rfsd/rfsd/rfs/cms"
	"github.com/rfsd/rfsd/rfs/cms/primitive"
	"github.com/rfsd/rfsd/rfs/doc"
	"github.com/rfsd/rfsd/rfs/fault"
)

const (
	// Who found nothing to do looks again after pausePerNode × the number of nodes, within bounds.
	pausePerNode = 20 * time.Millisecond
	firstPause   = 500 * time.Millisecond
	lastPause    = 10 * time.Second
	// lastWord is how long a task that is given back, or ended, may take to be written.
	lastWord = 10 * time.Second
)

// work does windows until the import is complete, ctx ends, or nothing can be done any more.
func (m *Import) work(ctx context.Context) error {
	silence := m.newSilence()
	for {
		task, err := m.next(ctx, silence)
		if task == nil {
			return err
		}
		if err := m.serve(ctx, task); ctx.Err() == nil {
			if err := silence.judge(err); err != nil {
				return err
			}
		}
	}
}

// next waits for a window; nil when the import is complete or ctx has ended. One worker of a process
// asks at a time, the others wait behind it.
func (m *Import) next(ctx context.Context, silence *silence) (*primitive.Task, error) {
	select {
	case m.claiming <- struct{}{}:
		defer func() { <-m.claiming }()
	case <-ctx.Done():
	}
	for ctx.Err() == nil {
		task, nodes, err := m.claim(ctx)
		if task != nil { // also when ctx ended in the pause after the claim: then it is given back
			return task, nil
		}
		if err == nil {
			err = m.look(ctx)
		}
		if ctx.Err() != nil || m.Seen().Complete {
			break
		}
		if err := silence.judge(err); err != nil {
			return nil, err
		}
		// The more nodes, the less often each asks; half of the pause is random, so that they do not ask at
		// the same time.
		pause := min(max(time.Duration(nodes)*pausePerNode, firstPause), lastPause)
		if m.Clock.Sleep(ctx, pause/2+time.Duration(rand.Int64N(int64(pause/2)))) != nil {
			break
		}
	}
	return nil, nil
}

// claim takes a window by this node's position in the list of nodes.
func (m *Import) claim(ctx context.Context) (task *primitive.Task, nodes int, err error) {
	list, err := m.nodes.List(ctx)
	if err != nil {
		return nil, 0, err
	}
	position, count := primitive.Position(list, m.Place.Node)
	position, among := position*m.Place.Slots+m.Place.Slot%m.Place.Slots, count*m.Place.Slots
	task, err = m.parts.Claim(ctx, m.Token+"."+primitive.Token()[:8], position, among, m.Lease)
	return task, count, err
}

// look reads how far the import is.
func (m *Import) look(ctx context.Context) error {
	book := notebook{store: m.Store}
	s, err := book.load(ctx)
	if err != nil || s == nil {
		return err
	}
	if err := m.same(s); err != nil {
		return err
	}
	m.see(s)
	return nil
}

// same demands that this process sees the files that the import is about.
func (m *Import) same(s *state) error {
	if s.Digest == m.digest {
		return nil
	}
	return fmt.Errorf("this session imports other files than there are in %s (names or sizes differ): another --session-name begins another import: %w", m.Source.URI(), fault.ErrConfig)
}

// run is one window that this worker holds.
type run struct {
	*Import
	task   *primitive.Task
	window Task
	base   progress // what earlier holders did
	loader *bulk.Loader
}

// serve does one claimed task to its end. An error concerns the whole process, or the store; what
// concerns the window alone is told in its partition.
func (m *Import) serve(ctx context.Context, task *primitive.Task) error {
	window, err := decodeTask(task.Data)
	base, errBase := decodeProgress(task.Progress())
	if errors.Is(err, fault.ErrConfig) { // others may know what to do with it
		m.giveBack(ctx, task, base)
		return err
	}
	if err = errors.Join(err, errBase); err != nil {
		return m.end(ctx, task, func(ctx context.Context) error { return task.Fail(ctx, fault.Text(err)) })
	}
	if tries := task.Attempts - base.Attempt; tries > m.MaxAttempts {
		reason := fmt.Sprintf("%d attempts ended without progress", tries-1)
		return m.end(ctx, task, func(ctx context.Context) error { return task.Fail(ctx, reason) })
	}
	r := &run{Import: m, task: task, window: window, base: base}
	r.tell()
	defer m.Tell(Hold{})
	return r.do(ctx)
}

// tell says for how long this process has the window.
func (r *run) tell() {
	r.Tell(Hold{Window: r.task.ID, Holder: r.task.Holder(), File: r.window.File, Number: r.window.Number, Left: max(r.task.Left(), time.Millisecond)})
}

func (r *run) do(ctx context.Context) error {
	guarded, stopGuard := r.task.Guard(ctx)
	defer stopGuard()
	guarded, cancel := context.WithCancelCause(guarded)
	defer cancel(nil)
	sender, err := r.Output(r.mayStart)
	if err != nil {
		r.giveBack(ctx, r.task, r.base)
		return &fatalError{err}
	}
	opts := r.Bulk
	opts.Sender, opts.Recorder = sender, &recorder{Recorder: r.Failed, window: r.window, failed: &r.seen.failed}
	opts.From, opts.Index, opts.Shard, opts.MayStart = max(r.base.Offset, r.window.From), r.window.File, r.window.Number, r.mayStart
	if r.task.Attempts > 1 { // an earlier holder may have sent all of it
		opts.SentBelow = math.MaxInt64
	}
	r.loader = bulk.New(opts)
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		r.renew(guarded, cancel)
	}()
	err = r.load(guarded)
	if err == nil {
		err = r.loader.Flush(guarded)
	}
	if err == nil {
		cancel(nil)
		<-stopped
		return r.finish(ctx)
	}
	if cause := context.Cause(guarded); cause != nil && ctx.Err() == nil {
		err = cause
	}
	r.settle(ctx, err)
	cancel(nil)
	<-stopped
	return r.fail(ctx, err)
}

// settle lets the requests under way end when somebody asked us to stop, and cancels them when
// the window is not ours any more.
func (r *run) settle(ctx context.Context, err error) {
	if lost(err) {
		r.loader.Abort()
		return
	}
	patience, cancel := context.WithTimeout(context.WithoutCancel(ctx), min(lastWord, max(r.task.Left()-lastWord, 0)))
	defer cancel()
	r.loader.Drain(patience)
}

// mayStart lets no request begin when the window may be another's.
func (r *run) mayStart() error {
	if r.task.Left() <= 0 {
		return fmt.Errorf("window of %s ran out: %w", r.window.File, fault.ErrLeaseLost)
	}
	return nil
}

// load passes the documents of the window to the loader. A file in which a later frame looks back further than the first
// is opened once more, when this window holds no line of it.
func (r *run) load(ctx context.Context) error {
	next, err := r.loadFrom(ctx, r.base.Offset, 0)
	if errors.Is(err, errFurther) {
		_, err = r.loadFrom(ctx, next, MaxBack)
	}
	return err
}

// loadFrom passes the documents at and after from to the loader, and returns behind which it stopped.
func (r *run) loadFrom(ctx context.Context, from, back int64) (next int64, err error) {
	w, err := openWindow(ctx, r.Source, r.window, from, r.limit(), room{r.Memory, r.Frames}, back)
	if err != nil {
		return from, err
	}
	defer w.close()
	var id idMaker
	var d doc.Document
	for {
		p, err := w.next()
		if errors.Is(err, io.EOF) {
			return from, nil
		}
		if err != nil {
			return from, err
		}
		r.seen.documents.Add(1)
		r.seen.bytes.Add(int64(len(p.source)))
		judged, err := r.judge(ctx, p)
		switch {
		case err != nil:
		case judged == filtered:
			err = r.loader.Filter(ctx, p.at)
		case judged == failing:
			err = r.loader.Fail(ctx, r.failure(p))
		default:
			if p.action.id == nil {
				p.action.id = id.make(r.window.File, p.at)
			}
			d = doc.Document{Ordinal: p.at, Index: p.action.index, Type: p.action.typ, ID: p.action.id, Routing: p.action.routing, Source: p.source}
			err = r.loader.Add(ctx, &d)
		}
		if err == nil {
			err = r.calm(ctx, w, len(p.source))
		}
		if err != nil {
			return from, err
		}
		from = p.at + 1
	}
}

// limit returns the longest source that is worth reading, in bytes.
func (r *run) limit() int {
	if r.MaxSource > 0 && r.MaxSource < maxLine {
		return int(r.MaxSource)
	}
	return maxLine
}

// calm waits until a long document is delivered before the next one is read, and lets other windows read theirs.
func (r *run) calm(ctx context.Context, w *window, size int) error {
	if !w.lines.turn.held() {
		return nil
	}
	if size > keepBuffer {
		if err := r.loader.Flush(ctx); err != nil {
			return err
		}
	}
	w.lines.small()
	return nil
}

// now is the progress as it is durable.
func (r *run) now() progress {
	mark, c := r.loader.Settled()
	p := r.base
	p.add(Counts{Documents: c.Live, Indexed: c.Indexed, Failed: c.Failed, Filtered: c.Filtered, Kept: c.Kept, Bytes: c.Bytes})
	if mark > max(p.Offset, r.window.From) {
		p.Offset, p.Attempt = mark, r.task.Attempts
	}
	return p
}

// renew reports the progress a few times per lease, which holds the window, until ctx ends or it is lost.
func (r *run) renew(ctx context.Context, cancel context.CancelCauseFunc) {
	every := r.Lease / 6
	for r.Clock.Sleep(ctx, every) == nil {
		err := r.task.Report(ctx, r.now().encode())
		switch {
		case err == nil:
			every = r.Lease / 6
			r.tell()
		case lost(err):
			cancel(err)
			return
		default: // the guard ends it when it lasts
			r.Log.Warn("the window could not be renewed", "file", r.window.File, "from", r.window.From, "error", err)
			every = r.Lease / 60
		}
	}
}

// lost says that the window is somebody else's now, or nobody's.
func lost(err error) bool {
	return errors.Is(err, fault.ErrLeaseLost) || errors.Is(err, primitive.ErrCancelled) || errors.Is(err, cms.ErrNotFound)
}

// finish marks the window done, with what became of its documents in the same update.
func (r *run) finish(ctx context.Context) error {
	p := r.now()
	r.seen.windows.Add(1)
	return r.end(ctx, r.task, func(ctx context.Context) error { return r.task.Finish(ctx, p.encode()) })
}

// fail tells what an error means: damage ends the window for good, anything that concerns more than it
// ends this process, and the window goes back to the others.
func (r *run) fail(ctx context.Context, err error) error {
	p := r.now()
	switch {
	case lost(err):
		r.Log.Info("window lost", "file", r.window.File, "from", r.window.From, "error", err)
		return nil
	case errors.Is(err, fault.ErrCorrupt):
		r.Log.Error("window given up", "file", r.window.File, "from", r.window.From, "error", err)
		return r.end(ctx, r.task, func(ctx context.Context) error { return r.task.Abandon(ctx, fault.Text(err), p.encode()) })
	}
	r.giveBack(ctx, r.task, p)
	if ctx.Err() != nil {
		return nil
	}
	return &fatalError{err}
}

// end writes the last word about a task, also when ctx has ended. One that is lost by now is
// another's, or ended by a write whose answer was lost.
func (m *Import) end(ctx context.Context, task *primitive.Task, write func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastWord)
	defer cancel()
	err := write(ctx)
	for range 3 {
		if !errors.Is(err, fault.ErrUnavailable) || task.Left() <= 0 || m.Clock.Sleep(ctx, firstPause) != nil {
			break
		}
		err = write(ctx)
	}
	if err == nil || lost(err) {
		return nil
	}
	return err
}

// giveBack frees the task; when that fails it runs out by itself. Who gives back did not die of the
// window: the attempt is none.
func (m *Import) giveBack(ctx context.Context, task *primitive.Task, p progress) {
	p.Attempt = task.Attempts
	progress := p.encode()
	if err := m.end(ctx, task, func(ctx context.Context) error { return task.Release(ctx, progress) }); err != nil {
		m.Log.Warn("a window could not be given back; it waits until its time is over", "task", task.ID, "error", err)
	}
}
