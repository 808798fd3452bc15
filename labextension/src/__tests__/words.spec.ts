import { divide } from '../division';
import {
  clock,
  duration,
  explain,
  gigabytes,
  longDuration,
  memory,
  partOf,
  percent,
  timeOfDay,
  timeSpan
} from '../format';
import { amount, list, nullable, oneOf, record, shape, text, WireError } from '../guard';
import { History } from '../history';
import { fill, leadAndRest, sentence } from '../message';
import { inRowOrder, kernelLabel, mayHold, ownDevicesFirst } from '../share_view';
import { asSnapshot } from '../wire';
import { BORROWER, device, GB, kernel, lease, message, parked, reading, snapshot, trans } from './samples';

describe('numbers', () => {
  it.each([
    [7.4 * GB, '7.4'],
    [0, '0.0'],
    [0.02 * GB, '< 0.1'],
    [null, '–']
  ])('%p bytes read %p', (bytes, expected) => {
    /* Something held is never shown as nothing, and unknown never as zero. */
    expect(gigabytes(bytes)).toBe(expected);
  });

  it('say – for what is not available, with its reason', () => {
    /* 0 for unknown would be a lie. */
    expect(memory(null, trans)).toBe('–');
    expect(percent(null, trans)).toBe('–');
    expect(explain(reading(null, 'MIG does not report it.'), trans)).toBe('MIG does not report it.');
  });

  it('say how they were found', () => {
    /* A device's total must not pass for the notebook's own. */
    expect(explain({ value: 1, attribution: 'device_total', reason: '' }, trans)).toContain('whole device');
    expect(explain({ value: 1, attribution: 'in_kernel', reason: '' }, trans)).toContain('kernel');
  });

  it.each([
    [-3, '0 s'],
    [59, '59 s'],
    [61, '1 min'],
    [7300, '2 h']
  ])('%p seconds read %p', (seconds, expected) => {
    /* Times are said as people say them, also where two clocks differ. */
    expect(duration(seconds, trans)).toBe(expected);
  });

  it.each([
    [0, '0 s'],
    [90, '1 min 30 s'],
    [600, '10 min'],
    [5400, '1 h 30 min'],
    [3601, '1 h 1 s']
  ])('an idle timeout of %p seconds reads %p', (seconds, expected) => {
    /* What somebody has chosen is not rounded: 90 seconds are not a minute. */
    expect(timeSpan(seconds, trans)).toBe(expected);
  });

  it.each([
    [250, '4:10'],
    [249.01, '4:10'],
    [3850, '1:04:10'],
    [0.2, '0:01'],
    [-3, '0:00']
  ])('%p seconds of a countdown read %p', (seconds, expected) => {
    /* It says 0:00 only when it is over. */
    expect(clock(seconds)).toBe(expected);
  });

  it.each([
    [59, '0 min'],
    [725, '12 min'],
    [11_520, '3 h 12 min']
  ])('%p seconds of GPU time read %p', (seconds, expected) => {
    /* What was handed back is worth its minutes. */
    expect(longDuration(seconds, trans)).toBe(expected);
  });

  it('never draw beyond their bar', () => {
    /* A share that bursts, or a device of size 0, must not break the drawing. */
    expect([partOf(50, 40), partOf(-1, 40), partOf(1, 0)]).toEqual([100, 0, 0]);
  });
});

describe('a sentence', () => {
  it('is translated as a template and filled afterwards', () => {
    /* Translators see the template; a name in it is not text to translate. */
    const german = { ...trans, __: () => 'Aktiv. In {notebook} läuft eine Zelle.' } as typeof trans;
    const spoken = sentence(message('ACTIVE', 'Active. {notebook} runs.', { notebook: 'a.ipynb' }), german);
    expect(spoken).toBe('Aktiv. In a.ipynb läuft eine Zelle.');
  });

  it('has its opening split off in the template', () => {
    /* A notebook's name with a full stop must not move the border of the bold part. */
    const active = message('ACTIVE', 'Active. {notebook} is running.', { notebook: 'x. y: z.ipynb' });
    expect(leadAndRest(active, trans)).toEqual(['Active.', ' x. y: z.ipynb is running.']);
    expect(leadAndRest(message('NO_GPU', 'No GPU here: {reason}', { reason: 'none.' }), trans)[0]).toBe(
      'No GPU here:'
    );
    expect(leadAndRest(message('RELEASING', 'Ending {notebooks}…', { notebooks: 'a' }), trans)).toEqual([
      'Ending a…',
      ''
    ]);
  });

  it('keeps a name that has no value, and fills no value twice', () => {
    /* A server of another version must not produce "undefined", nor a value be read as a template. */
    expect(fill('{a} and {b}', { a: '{b}' })).toBe('{b} and {b}');
    expect(fill('{constructor}', {})).toBe('{constructor}');
  });

  it('has its times in the time zone of the browser', () => {
    /* A hub in another country must not tell its users its own night as theirs. */
    const since = Date.UTC(2026, 2, 1, 13, 2) / 1000;
    const values = { since1: '03:33', since1_epoch: String(since) };
    expect(fill('since {since1}', values)).toBe(`since ${timeOfDay(since)}`);
    expect(fill('since {since1}', { ...values, since1_epoch: 'soon' })).toBe('since 03:33');
  });
});

describe('guards', () => {
  it('let a whole snapshot through, and drop what they do not know', () => {
    /* A newer server may say more without breaking an older page. */
    const newer = { ...snapshot(), parking: { mode: 'observe' } };
    expect(asSnapshot(newer, 'frame')).toEqual(snapshot());
  });

  it('take a snapshot of an older server that knows nothing of parking', () => {
    /* A page and a server are not always of one version. */
    const news = { parking_mode: undefined, handed_back_s: undefined, notices: undefined };
    const older = { ...snapshot(), ...news, kernels: [{ ...kernel(), parking: undefined }] };
    const seen = asSnapshot(older, 'frame');
    expect(seen).toEqual(snapshot({ parking_mode: 'off' }));
  });

  it('take a word of a newer server for the plainest one', () => {
    /* One new status must not darken the whole panel. */
    const newer = { ...parked(), parking: { ...parked().parking, status: 'teleporting' } };
    const seen = asSnapshot({ ...snapshot(), kernels: [newer], parking_mode: 'dream' }, 'frame');
    expect([seen.kernels[0]?.parking?.status, seen.parking_mode]).toEqual(['running', 'off']);
  });

  it('name the place that is wrong', () => {
    /* "frame.devices[0].used.value" is found in minutes, "invalid" is not. */
    const wrong = { ...snapshot(), devices: [{ ...device(), used: { ...reading(1), value: 'much' } }] };
    expect(() => asSnapshot(wrong, 'frame')).toThrow('frame.devices[0].used.value: expected a number');
  });

  it.each([
    ['a missing field', () => shape({ a: text })({}, 'x')],
    ['not a number', () => amount(NaN, 'x')],
    ['no list', () => list(text)({ length: 1 }, 'x')],
    ['no object', () => record(text)([], 'x')],
    ['another word', () => oneOf('a', 'b')('c', 'x')],
    ['null', () => shape({})(null, 'x')]
  ])('refuse %s', (_, check) => {
    /* Each kind of wrong value is caught where it arrives, not where it is drawn. */
    expect(check).toThrow(WireError);
  });

  it('take null for nothing where that is allowed', () => {
    /* Unknown is a value of its own. */
    expect(nullable(amount)(null, 'x')).toBeNull();
  });
});

describe('history', () => {
  it('keeps one hour', () => {
    /* A tab that is open for a week must not grow. */
    const history = new History();
    for (let at = 0; at < 8000; at += 2) {
      history.append(snapshot({ at }));
    }
    expect(history.moments[0]?.at).toBe(7998 - 3600);
    expect(history.moments).toHaveLength(1801);
  });

  it('is broken where nobody read', () => {
    /* An unwatched hour must not be drawn as a steady line. */
    const history = new History();
    [0, 10, 1000].forEach(at => {
      history.append(snapshot({ at }));
    });
    expect(history.withGaps().map(({ at, memory }) => [at, memory])).toEqual([
      [0, 7.4 * GB],
      [10, 7.4 * GB],
      [11, null],
      [1000, 7.4 * GB]
    ]);
  });

  it('spans what it has, and ten seconds at least', () => {
    /* From the first minute on the chart is filled, never a dot at its edge or a division by nothing. */
    const history = new History();
    expect(history.spanS).toBe(10);
    [0, 10, 2000].forEach(at => {
      history.append(snapshot({ at }));
    });
    expect(history.spanS).toBe(2000);
  });

  it('knows when the share was handed back, from the server and from the frames', () => {
    /* The shaded times are those that really were: a pause between two parkings is not shaded. */
    const history = new History();
    const show = (at: number, isParked: boolean): void => {
      history.append(snapshot({ at, kernels: [isParked ? parked() : kernel()] }));
    };
    [100, 102, 104].forEach(at => {
      show(at, at > 100);
    });
    show(106, false);
    show(108, true);
    const columns = { interval_s: 1, at: [], memory: [], utilisation: [], lent: [] };
    history.load({
      ...columns,
      parked: [
        [50, 60],
        [90, 103]
      ]
    });
    expect(history.parked).toEqual([
      { begin: 50, end: 60, isLent: false },
      { begin: 90, end: 104, isLent: false },
      { begin: 108, end: 108, isLent: false }
    ]);
  });

  it('knows when the share was lent to training, and not merely handed back', () => {
    /* The region says who had the GPU; a time in which nobody took it must not say training. */
    const history = new History();
    const borrowed = lease({ status: 'parked', lent_to: [BORROWER] });
    const show = (at: number, isParked: boolean, isLent: boolean): void => {
      const kernels = [isParked ? parked() : kernel()];
      history.append(snapshot({ at, kernels, lease: isLent ? borrowed : lease() }));
    };
    show(100, true, false);
    show(102, false, false);
    show(104, true, false);
    show(106, true, true);
    show(108, true, false);
    expect(history.parked).toEqual([
      { begin: 100, end: 100, isLent: false },
      { begin: 104, end: 108, isLent: true }
    ]);
  });

  it('cuts columns of unlike length, and drops what goes back in time', () => {
    /* A server that is wrong or was restarted must not draw a tangle. */
    const history = new History();
    history.load({
      interval_s: 1,
      at: [1, 3, 2, 4],
      memory: [1, 2, 3],
      utilisation: [1, null, 3],
      parked: [[5, 4], [1]],
      lent: [[2]]
    });
    expect(history.parked).toEqual([]);
    expect(history.moments).toEqual([
      { at: 1, memory: 1, utilisation: 1 },
      { at: 3, memory: 2, utilisation: null }
    ]);
  });
});

describe('a device', () => {
  it('is divided without remainder', () => {
    /* You, kept for you, others and free make up the whole. */
    const parts = divide(device(), snapshot());
    expect(parts).toEqual({
      mine: 7.4 * GB,
      kept: 20 * GB - 7.4 * GB,
      handedBack: 0,
      lent: 0,
      others: 12 * GB,
      unattributed: 0,
      free: 8 * GB
    });
  });

  it('is handed back, not kept for you, while everything is parked', () => {
    /* What others may use until the next cell must not look reserved. */
    const away = snapshot({ kernels: [parked()] });
    const parts = divide(device({ mine: reading(0) }), away);
    expect([parts.kept, parts.handedBack, parts.lent]).toEqual([0, 20 * GB, 0]);
    const half = snapshot({ kernels: [parked(), kernel({ id: 'other' })] });
    expect(divide(device(), half).handedBack).toBe(0);
  });

  it.each([
    ['0.2', 8 * GB, 12 * GB],
    ['0.5', 20 * GB, 0],
    ['4', 20 * GB, 0],
    ['some', 20 * GB, 0]
  ])('is lent to training as far as %p of a GPU goes', (amount, lent, handedBack) => {
    /* The hatch is no longer than what is lent, and never than what is mine. */
    const away = snapshot({ kernels: [parked()], lease: lease({ lent_to: [{ ...BORROWER, amount }] }) });
    const parts = divide(device({ mine: reading(0) }), away);
    expect([parts.kept, parts.lent, parts.handedBack]).toEqual([0, lent, handedBack]);
  });

  it('shows the lent part though training fills it', () => {
    /* The driver counts training among the others: without this the hatch would vanish as training grows. */
    const away = snapshot({ kernels: [parked()], lease: lease({ lent_to: [BORROWER] }) });
    const parts = divide(
      device({ mine: reading(0), others: reading(30 * GB), used: reading(30 * GB) }),
      away
    );
    expect(parts).toMatchObject({ mine: 0, lent: 20 * GB, others: 20 * GB, free: 0 });
  });

  it('has its part of what is lent from a share on two', () => {
    /* The broker says how much in all. */
    const share = { ...snapshot().share, devices: ['GPU-a', 'GPU-b'], request: 40 * GB };
    const lent_to = [{ ...BORROWER, amount: '0.5' }];
    const away = snapshot({ share, kernels: [parked()], lease: lease({ lent_to }) });
    expect(divide(device({ mine: reading(0) }), away).lent).toBe(10 * GB);
  });

  it('keeps no more for you than there is room for', () => {
    /* Others' overrun must not make the parts exceed the device. */
    const full = device({ others: reading(32 * GB) });
    const { kept, free } = divide(full, snapshot());
    expect(kept + (free ?? 0)).toBeCloseTo(0.6 * GB);
  });

  it('has its part of a share that lies on two', () => {
    /* The server sums a share over its devices. */
    const share = { ...snapshot().share, devices: ['GPU-a', 'GPU-b'], request: 40 * GB };
    expect(divide(device(), snapshot({ share })).kept).toBeCloseTo(12.6 * GB);
  });

  it('keeps nothing for you where your share does not lie', () => {
    /* Another GPU of the machine is not promised to this session. */
    expect(divide(device({ uuid: 'GPU-z', mine: reading(0) }), snapshot()).kept).toBe(0);
  });

  it('is not divided where the driver does not say whose memory it is', () => {
    /* Without per-process figures all use would otherwise look like others'. */
    const parts = divide(device({ mine: reading(null), others: reading(null) }), snapshot());
    expect(parts).toMatchObject({
      mine: null,
      others: null,
      unattributed: 19.4 * GB,
      free: 40 * GB - 19.4 * GB
    });
  });

  it('says nothing is free where nothing is known', () => {
    /* Unknown use is not no use. */
    const dark = device({ mine: reading(null), others: reading(null), used: reading(null) });
    expect(divide(dark, snapshot()).free).toBeNull();
  });

  it('of your own comes first', () => {
    /* With 64 devices yours must not be searched for. */
    const foreign = device({ uuid: 'GPU-0', index: 0 });
    const own = device({ index: 7 });
    const [mine, others] = ownDevicesFirst(snapshot({ devices: [foreign, own] }));
    expect([mine.map(({ index }) => index), others.map(({ index }) => index)]).toEqual([[7], [0]]);
  });
});

describe('a kernel', () => {
  it('has a row while it may hold memory', () => {
    /* Unknown counts as holding; zero does not. */
    const held = [reading(1), reading(null), reading(0)].map(memory => mayHold(kernel({ memory })));
    expect(held).toEqual([true, true, false]);
    const noted = kernel({ memory: reading(0), note: message('NOT_LOADED', 'No jupyter_gpushare in it.') });
    expect(mayHold(noted)).toBe(false);
  });

  it('is called by its notebook, or by its name and id', () => {
    /* A console has no notebook, and two of them must be told apart. */
    expect(kernelLabel(kernel())).toBe('train.ipynb');
    expect(kernelLabel(kernel({ path: null, id: '0123456789' }))).toBe('python3 (01234567)');
  });

  it('keeps its place while numbers change', () => {
    /* Rows that jump cannot be clicked. */
    const rows = [kernel({ id: '2', path: 'b.ipynb' }), kernel({ id: '1', path: 'a.ipynb' })];
    expect(inRowOrder(rows).map(({ id }) => id)).toEqual(['1', '2']);
  });
});
