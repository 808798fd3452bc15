import { GpuShareModel } from '../model';
import { FakePage, FakeServer } from './fake_server';
import { GB, reading, release, snapshot } from './samples';

let server: FakeServer;
let page: FakePage;
let model: GpuShareModel;

beforeEach(() => {
  jest.useFakeTimers();
  server = new FakeServer();
  page = new FakePage();
  model = new GpuShareModel({
    serverSettings: server.settings,
    page: page as unknown as Document,
    random: () => 1
  });
});

afterEach(() => {
  model.dispose();
  jest.useRealTimers();
});

/** Let time pass, and everything that was waiting for it. */
async function pass(ms: number): Promise<void> {
  await jest.advanceTimersByTimeAsync(ms);
}

describe('the stream', () => {
  it('is asked for behind the base URL, with the token, and not as activity', () => {
    /* A proxy prefix, a token with odd characters and culling all depend on this one address. */
    model.watch();
    expect(server.socket.url).toBe(
      'ws://hub.test/user/ada/pre/gpushare/api/v1/stream?no_track_activity=1&token=a%26b'
    );
  });

  it('is not opened while nobody watches', async () => {
    /* An unwatched Lab must not make the server read devices or look active. */
    await pass(60_000);
    expect(server.sockets).toHaveLength(0);
    expect(server.asked).toHaveLength(0);
  });

  it('is one connection for many watchers', () => {
    /* Panel and status item together must not double the traffic. */
    model.watch();
    model.watch();
    expect(server.sockets).toHaveLength(1);
  });

  it('makes the snapshot live', () => {
    /* The first frame shows at once. */
    model.watch();
    server.socket.send(snapshot());
    expect(model.contact).toBe('live');
    expect(model.snapshot?.memory.value).toBe(7.4 * GB);
  });

  it('comes back after it was dropped, ever more slowly', async () => {
    /* A server that restarts is found again, and one that stays away is not stormed. */
    server.answers.set('session', 'unreachable');
    model.watch();
    const delays = [500, 1000, 2000, 4000];
    for (const delay of delays) {
      const before = server.sockets.length;
      server.socket.drop();
      await pass(delay - 1);
      expect(server.sockets).toHaveLength(before);
      await pass(1);
      expect(server.sockets).toHaveLength(before + 1);
    }
  });

  it('is replaced when it falls silent without being closed', async () => {
    /* A proxy may cut a connection and tell nobody. */
    model.watch();
    server.socket.send(snapshot());
    const silent = server.socket;
    await pass(6_000);
    expect(silent.isClosed).toBe(true);
    expect(server.socket).not.toBe(silent);
  });
});

describe('a frame that is not what was promised', () => {
  it.each(['not json', '{"type":"snapshot"}', { ...snapshot(), memory: { value: '7' } }, []])(
    'leaves the last true numbers and does not look live for ever (case %#)',
    async frame => {
      /* What arrives over a wire is untrusted: it must neither show nor break the panel. */
      model.watch();
      server.socket.send(snapshot());
      for (let second = 0; second < 6; second++) {
        server.socket.send(frame);
        await pass(1_000);
      }
      expect(model.snapshot?.memory.value).toBe(7.4 * GB);
      expect(model.contact).toBe('lost');
      expect(model.trouble).not.toBe('');
    }
  );
});

describe('a number that is no longer live', () => {
  it('is called lost after five seconds without a frame, and live again with the next', async () => {
    /* A stale number must never look live, and recovery needs no reload. */
    server.answers.set('session', 'unreachable');
    model.watch();
    server.socket.send(snapshot());
    await pass(4_900);
    expect(model.contact).toBe('live');
    await pass(200);
    expect(model.contact).toBe('lost');
    await pass(2_000);
    server.socket.send(snapshot());
    expect(model.contact).toBe('live');
  });

  it('is called lost by the clock when a tab wakes before its timers do', () => {
    /* After an hour of sleep the first thing shown must not be an hour old and look live. */
    server.answers.set('session', 'unreachable');
    model.watch();
    server.socket.send(snapshot());
    const asleep = server.socket;
    const seen: string[] = [];
    model.changed.connect(() => seen.push(model.contact));
    jest.setSystemTime(Date.now() + 3_600_000);
    page.show('visible');
    expect(seen[0]).toBe('lost');
    expect(model.contact).not.toBe('live');
    expect(server.socket).not.toBe(asleep);
    server.socket.send(snapshot());
    expect(model.contact).toBe('live');
  });
});

describe('demand', () => {
  it('ends the connection a while after the tab was hidden, and opens it at once when it shows', async () => {
    /* A proxy counts traffic as activity: a forgotten tab must not keep a server from being culled. */
    model.watch();
    server.socket.send(snapshot());
    page.show('hidden');
    const keepAlive = setInterval(() => {
      server.socket.send(snapshot());
    }, 1_000);
    await pass(29_000);
    expect(server.socket.isClosed).toBe(false);
    await pass(2_000);
    clearInterval(keepAlive);
    expect(server.socket.isClosed).toBe(true);
    expect(model.contact).toBe('connecting');
    await pass(600_000);
    expect(server.sockets).toHaveLength(1);
    page.show('visible');
    expect(server.sockets).toHaveLength(2);
  });

  it('ends the connection a while after the last watcher left', async () => {
    /* Closing the panel stops the traffic; moving between panels does not flap it. */
    const panel = model.watch();
    server.socket.send(snapshot());
    panel.dispose();
    await pass(1_000);
    expect(server.socket.isClosed).toBe(false);
    await pass(30_000);
    expect(server.sockets.every(socket => socket.isClosed)).toBe(true);
  });
});

describe('where WebSockets are blocked', () => {
  it('asks for the session instead', async () => {
    /* Some proxies let no WebSocket through: the panel works there too, by polling. */
    server.answers.set('session', { status: 200, body: snapshot() });
    model.watch();
    server.socket.drop();
    await pass(10_000);
    expect(model.contact).toBe('live');
    expect(server.askedFor('session')).toBeGreaterThan(3);
    expect(server.asked.every(({ url }) => url.includes('no_track_activity=1'))).toBe(true);
  });

  it('stops asking when a stream delivers', async () => {
    /* Two sources of the same numbers would double the load. */
    server.answers.set('session', { status: 200, body: snapshot() });
    model.watch();
    server.socket.drop();
    await pass(1_000);
    server.socket.send(snapshot());
    const before = server.askedFor('session');
    for (let second = 0; second < 10; second++) {
      server.socket.send(snapshot());
      await pass(1_000);
    }
    expect(server.askedFor('session')).toBe(before);
  });
});

describe('a server that says no', () => {
  it('is known to lack the extension by its 404, and is left alone', async () => {
    /* A Lab whose server has no extension says so, and does not ask for ever. */
    model.watch();
    server.socket.drop();
    await pass(1_000);
    expect(model.contact).toBe('no_extension');
    const sockets = server.sockets.length;
    await pass(600_000);
    expect(server.sockets).toHaveLength(sockets);
    expect(server.askedFor('session')).toBe(1);
  });

  it('is asked again on request', async () => {
    /* After the extension was installed, one press on "Try again" finds it. */
    model.watch();
    server.socket.drop();
    await pass(1_000);
    server.answers.set('session', { status: 200, body: snapshot() });
    model.retry();
    await pass(10);
    expect(model.contact).toBe('live');
  });

  it('is known to forbid by its 403', async () => {
    /* A token that may not read is told so, not shown a fault of the network. */
    server.answers.set('session', { status: 403, body: { message: 'Forbidden' } });
    model.watch();
    server.socket.drop();
    await pass(1_000);
    expect(model.contact).toBe('forbidden');
  });

  it('does not end a live contact when one question fails', async () => {
    /* While frames come, a refused side request says nothing about the contact. */
    server.answers.set('session', 'unreachable');
    model.watch();
    server.socket.send(snapshot());
    await model.refresh();
    expect(model.contact).toBe('live');
  });
});

describe('history', () => {
  const remembered = { interval_s: 1, at: [10, 11, 12], memory: [1, null, 3], utilisation: [5, 6, 7] };

  it('continues what the server remembers with the frames', async () => {
    /* The chart is full as soon as the panel opens, and goes on without asking again. */
    server.answers.set('history', { status: 200, body: remembered });
    model.watch();
    server.socket.send(snapshot({ at: 12 }));
    await model.loadHistory();
    server.socket.send(snapshot({ at: 13, memory: reading(4) }));
    expect(model.history.moments.map(({ at }) => at)).toEqual([10, 11, 12, 13]);
    expect(model.history.moments.map(({ memory }) => memory)).toEqual([1, null, 3, 4]);
  });

  it('knows after a reload when the share was lent', async () => {
    /* What training used while the page was closed is hatched in the chart, too. */
    const body = {
      ...remembered,
      parked: [
        [1, 4],
        [6, 9]
      ],
      lent: [[7, 8]]
    };
    server.answers.set('history', { status: 200, body });
    await model.loadHistory();
    expect(model.history.parked).toEqual([
      { begin: 1, end: 4, isLent: false },
      { begin: 6, end: 9, isLent: true }
    ]);
  });

  it('is fetched again after the contact was lost', async () => {
    /* A gap in the frames must not stay a gap in the chart. */
    server.answers.set('history', { status: 200, body: remembered });
    server.answers.set('session', 'unreachable');
    model.watch();
    server.socket.send(snapshot());
    await model.loadHistory();
    await pass(8_000);
    expect(model.contact).toBe('lost');
    server.socket.send(snapshot());
    await pass(1);
    expect(server.askedFor('history')).toBe(2);
  });
});

describe('releases', () => {
  it('are asked for as the interface says', async () => {
    /* The body is the contract with the server. */
    server.answers.set('releases', { status: 202, body: release() });
    const answer = await model.release({ level: 'free_cache', kernel_id: 'kernel-1', confirm: '' });
    expect(answer.id).toBe('r1');
    expect(server.asked[0]?.method).toBe('POST');
    expect(server.asked[0]?.body).toEqual({ level: 'free_cache', kernel_id: 'kernel-1', confirm: '' });
  });

  it("reject with the server's own sentence", async () => {
    /* People must read what the server announces, not a status code. */
    const error = { code: 'KERNEL_BUSY', template: 'a.ipynb is busy', values: {}, text: 'a.ipynb is busy' };
    server.answers.set('releases', {
      status: 409,
      body: { error, message: 'a.ipynb is busy', confirm: 'd1' }
    });
    const asked = model.release({ level: 'end_kernel', kernel_id: 'k', confirm: '' });
    await expect(asked).rejects.toMatchObject({
      status: 409,
      message: 'a.ipynb is busy',
      sentence: error,
      confirm: 'd1'
    });
  });

  it('survive the error page of a proxy', async () => {
    /* A proxy answers HTML: its status is said, its text is not parsed. */
    server.answers.set('releases', { status: 503, body: '<html>' });
    const asked = model.release({ level: 'end_all', kernel_id: null, confirm: '' });
    await expect(asked).rejects.toMatchObject({ status: 503, sentence: null });
  });
});

describe('parking', () => {
  it('is asked for as the interface says', async () => {
    /* Paths, verbs and bodies are the contract with the server. */
    const policy = { idle_timeout_s: null, source: 'owner' };
    const said = { code: 'KEPT', template: 'Kept.', values: {}, text: 'Kept.' };
    server.answers.set('resumes', { status: 202, body: { kernel_ids: ['k'] } });
    server.answers.set('keep', { status: 200, body: { kept_until: 9, message: said } });
    server.answers.set('kernels/a%2Fb/policy', { status: 200, body: policy });
    expect(await model.resume('k')).toEqual(['k']);
    expect((await model.keep(60, null)).kept_until).toBe(9);
    expect((await model.setPolicy('a/b', { idle_timeout_s: null })).source).toBe('owner');
    expect(server.asked.map(({ method, body }) => [method, body])).toEqual([
      ['POST', { kernel_id: 'k' }],
      ['POST', { seconds: 60, kernel_id: null }],
      ['PUT', { idle_timeout_s: null }]
    ]);
  });

  it("is timed by the server's clock, which late frames do not shake", () => {
    /* A laptop that is minutes off must not show a countdown that is over. */
    jest.setSystemTime(1_000_000);
    model.watch();
    server.socket.send(snapshot({ at: 1_300 }));
    expect(model.serverNow).toBe(1_300);
    server.socket.send(snapshot({ at: 1_299.4 }));
    expect(model.serverNow).toBe(1_300);
    server.socket.send(snapshot({ at: 1_290 }));
    expect(model.serverNow).toBe(1_290);
  });
});

it('lets go of everything when it is disposed', async () => {
  /* A plugin that is switched off must leave no timer and no connection behind. */
  model.watch();
  server.socket.send(snapshot());
  model.dispose();
  await pass(600_000);
  expect(server.sockets).toHaveLength(1);
  expect(server.socket.isClosed).toBe(true);
  expect(server.asked).toHaveLength(0);
});
