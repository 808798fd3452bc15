import { act, cleanup, fireEvent, render, screen } from '@testing-library/react';
import * as React from 'react';

import { PanelView } from '../panel_view';
import { StatusText } from '../status_item';
import { Lease, Snapshot } from '../wire';
import { FakeModel } from './fake_model';
import { BORROWER, device, lease, message, parked, reading, trans } from './samples';
import { SeenActions } from './seen_actions';

const NOW_S = 1_700_000_000;

let model: FakeModel;
let actions: SeenActions;

beforeEach(() => {
  jest.useFakeTimers({ now: NOW_S * 1000 });
  model = new FakeModel();
  actions = new SeenActions();
});

afterEach(() => {
  cleanup();
  jest.useRealTimers();
});

function show(changes: Partial<Lease>, others: Partial<Snapshot> = {}): void {
  model.say({ lease: lease(changes), ...others });
  render(
    <PanelView
      model={model}
      actions={actions}
      settings={{ showHistory: false, showIdleNotebooks: false }}
      trans={trans}
    />
  );
}

function words(testId: string): string {
  return (screen.getByTestId(testId).textContent ?? '').replace(/\u00a0/g, ' ');
}

function box(): string {
  const facts = screen.queryByTestId('gpushare-lease-facts')?.textContent ?? '';
  return words('gpushare-state').replace(facts, '');
}

function buttons(): string[] {
  return [...document.querySelectorAll('.jp-gpushare-Button')].map(({ textContent }) => textContent ?? '');
}

function pass(seconds: number): void {
  act(() => {
    jest.advanceTimersByTime(seconds * 1000);
  });
}

/** The status bar's item. */
function status(): string {
  const { container } = render(<StatusText model={model} open={jest.fn()} trans={trans} />);
  return container.textContent ?? '';
}

const QUEUED: Partial<Lease> = {
  status: 'queued',
  place: 2,
  estimate_s: 180,
  message: message('LEASE_WAITING', 'Waiting: {place} in line, {estimate} ({why}).', {
    place: '2nd',
    estimate: 'about 3 min',
    why: 'no device has room'
  })
};

const LEAVING: Partial<Lease> = {
  status: 'parked',
  began: NOW_S - 8,
  deadline: NOW_S + 22,
  lent_to: [BORROWER],
  message: message('TRAINING_LEAVES', 'Training is leaving ({passed} of {grace}). Nothing is lost.', {
    passed: '1 s',
    grace: '30 s'
  })
};

const AWAY: Partial<Lease> = {
  connection: 'away',
  can_request: false,
  message: message('LEASE_AWAY', 'Share lost contact with the broker; nothing changes for you.')
};

const PARKED: Partial<Snapshot> = {
  memory: reading(0),
  kernels: [parked({ status: 'waiting', held: 1 })],
  state: message('WAITING_FOR_ROOM', 'Waiting for room.')
};

describe('who waits for a share', () => {
  it('reads their place, the time and the reason in one sentence', () => {
    /* One glance says how long it takes, and why. */
    show(QUEUED);
    expect(box()).toBe('Waiting: 2nd in line, about 3 min (no device has room).');
    expect(screen.getByTestId('gpushare-state').dataset.tone).toBe('changing');
    expect(words('gpushare-lease-facts')).toMatch(/^project team-a · since \d\d:\d\d$/);
  });

  it('sees the estimate go down between what the server says', () => {
    /* "about 3 min" for ten minutes is no estimate. */
    show(QUEUED);
    pass(70);
    act(() => {
      model.changed.emit();
    });
    expect(box()).toContain('about 2 min');
    pass(80);
    act(() => {
      model.changed.emit();
    });
    expect(box()).toContain('less than a minute');
  });

  it('learns place and time also where the sentence is only the reason', () => {
    /* A reason without a place leaves the question open. */
    show({ ...QUEUED, message: message('WAITING_FOR_QUOTA', 'team-a uses its fair share.') });
    expect(words('gpushare-lease-facts')).toMatch(/^project team-a · 2nd in line · about 3 min · since/);
  });

  it('is not told of a share that is not there', () => {
    /* "0.0 GB of 20.0 GB, guaranteed" would be a promise that nobody has given. */
    show(QUEUED, { memory: reading(0) });
    expect(words('gpushare-memory')).toBe('Waiting');
    expect(words('gpushare-share')).toBe('asked for 0.5..1');
    expect(words('gpushare-gauge')).not.toContain('%');
    expect(words('gpushare-device')).not.toContain('kept for you');
  });

  it('may ask for another share, where that is possible', () => {
    /* A smaller one may fit now. */
    show(QUEUED);
    expect(buttons()).toEqual(['Change share…', 'Details']);
    fireEvent.click(screen.getByTestId('gpushare-request'));
    expect(actions.seen).toEqual(['request']);
    cleanup();
    show({ ...QUEUED, can_request: false });
    expect(buttons()).toEqual(['Details']);
  });

  it('has their place in the status bar', () => {
    /* With the panel closed the wait still shows. */
    model.say({ lease: lease(QUEUED) });
    expect(status()).toBe('GPU: 2nd in line');
    cleanup();
    model.say({ lease: lease({ ...QUEUED, place: null }) });
    expect(status()).toBe('GPU: waiting');
    cleanup();
    model.say({ lease: lease({ ...LEAVING, ...QUEUED }) });
    expect(status()).toBe('GPU: 2nd in line');
  });

  it('hears of the last places, and not of each in a long line', () => {
    /* A screen reader must neither be flooded nor left out. */
    const at = (place: number): Partial<Snapshot> => ({ lease: lease({ ...QUEUED, place }) });
    show({ ...QUEUED, place: 9 });
    const heard = [9, 8, 4, 3, 2].map(place => {
      act(() => {
        model.say(at(place));
      });
      return /\d+\w\w/.exec(words('gpushare-announcement'))?.[0];
    });
    expect(heard).toEqual(['9th', '9th', '9th', '3rd', '2nd']);
  });
});

describe('who gets no share', () => {
  it('reads why', () => {
    /* A refusal is shown as one, with what the broker said. */
    const said = message('EXCEEDS_PROJECT_QUOTA', 'No share: {why}', { why: 'ask for less.' });
    show({ connection: 'refused', status: 'failed', message: said, can_request: false });
    expect(box()).toBe('No share: ask for less.');
    expect(screen.getByTestId('gpushare-state').dataset.tone).toBe('trouble');
    expect(words('gpushare-memory')).toBe('No share');
    expect(status()).toBe('GPU: no share');
  });

  it('reads first that the driver is lost, if it is', () => {
    /* No broker can give what no driver has. */
    const state = message('DRIVER_LOST', 'The GPU driver stopped answering.');
    show(QUEUED, { state });
    expect(box()).toBe('The GPU driver stopped answering.');
  });
});

describe('training that leaves', () => {
  it('is timed by the second, in words and as a line', () => {
    /* A wait with an end in sight is no fault. */
    show(LEAVING, PARKED);
    expect(box()).toBe('Training is leaving (8 s of 30 s). Nothing is lost.');
    pass(4.1);
    expect(box()).toContain('(12 s of 30 s)');
    const line = screen.getByTestId('gpushare-leaving');
    expect(line.getAttribute('aria-valuenow')).toBe('40');
    expect(line.getAttribute('aria-valuetext')).toBe('12 s of 30 s');
    pass(60);
    expect(box()).toContain('(30 s of 30 s)');
    expect(screen.getByTestId('gpushare-leaving').getAttribute('aria-valuenow')).toBe('100');
  });

  it('leaves the user the way out, and the status bar says how long', () => {
    /* Who does not want to wait takes the cell back; nothing is lost by it. */
    show(LEAVING, PARKED);
    expect(buttons()).toEqual(['Cancel cell', 'Details']);
    expect(status()).toBe('GPU back in 0:22');
  });

  it('is announced once, not each second', () => {
    /* A countdown that is read out hides everything else. */
    show(LEAVING, PARKED);
    const spoken = words('gpushare-announcement');
    pass(10);
    expect(words('gpushare-announcement')).toBe(spoken);
  });
});

describe('what is lent', () => {
  const away: Partial<Snapshot> = {
    memory: reading(0),
    kernels: [parked()],
    state: message('PARKED', '{memory} safe.', { memory: '6.1 GB' })
  };

  it('says who uses it, and how much', () => {
    /* People hand back more gladly when they see for whom. */
    show({ status: 'parked', lent_to: [BORROWER] }, away);
    expect(words('gpushare-borrower')).toBe('resnet-sweepvision · 0.5 GPU');
    expect(words('gpushare-lent-to')).toContain('Lent to training');
    expect(box()).toBe('6.1 GB safe.');
  });

  it('is hatched in the device, with the word training', () => {
    /* Never colour alone. */
    show({ status: 'parked', lent_to: [BORROWER] }, { ...away });
    expect(words('gpushare-device')).toContain('lent to training');
    expect(document.querySelector('[data-kind="device"] [data-owner="lent"]')).not.toBeNull();
    cleanup();
    show({ status: 'parked' }, away);
    expect(words('gpushare-device')).toContain('handed back');
    expect(screen.queryByTestId('gpushare-lent-to')).toBeNull();
  });

  it('is not counted among the others a second time', () => {
    /* The driver lists the borrower as somebody else's; only the broker knows whose memory it is. */
    const [others, GB] = [reading(19e9), 1e9];
    const devices = [device({ others, mine: reading(0), used: others })];
    const borrower = { ...BORROWER, amount: '0.25', memory: 6 * GB };
    show({ status: 'parked', lent_to: [borrower] }, { ...away, devices });
    expect(words('gpushare-device')).toContain('others 13.0 GB');
    expect(words('gpushare-borrower')).toContain('6.0 GB');
    cleanup();
    show({ status: 'parked', lent_to: [{ ...borrower, memory: null }] }, { ...away, devices });
    expect(words('gpushare-device')).toContain('others 19.0 GB');
  });

  it('is called training where the job has no name', () => {
    /* An empty line would look broken. */
    show({ status: 'parked', lent_to: [{ ...BORROWER, name: '' }] }, away);
    expect(words('gpushare-borrower')).toBe('trainingvision · 0.5 GPU');
  });
});

describe('a broker that is away', () => {
  it('is a calm line; the state stays what it was', () => {
    /* Nothing changes for what runs, so nothing may look as if it did. */
    show(AWAY);
    expect(box()).toBe('Active. train.ipynb is running a cell.');
    expect(words('gpushare-connection')).toBe('Share lost contact with the broker; nothing changes for you.');
    expect(screen.queryByTestId('gpushare-change-share')).toBeNull();
    expect(status()).toBe('GPU 7.4 / 20.0 GB');
  });

  it('is spoken of once, though a time in it goes on', () => {
    /* A second hand in a live region never ends. */
    const at = (left: string): Partial<Lease> => ({
      ...AWAY,
      message: message('LEASE_AWAY', 'Away; back in {left}.', { left })
    });
    show(at('30 s'));
    act(() => {
      model.say({ lease: lease(at('28 s')) });
    });
    expect(words('gpushare-connection')).toBe('Away; back in 28 s.');
    expect(words('gpushare-connection-spoken')).toBe('Away; back in 30 s.');
    act(() => {
      model.say({ lease: lease() });
    });
    expect(words('gpushare-connection-spoken')).toBe('');
  });

  it('is what the box says where there is no share yet, without alarm', () => {
    /* There is nothing else to say, and it is no fault of the user. */
    show({ ...AWAY, status: 'queued' });
    expect(box()).toContain('Share lost contact with the broker');
    expect(screen.getByTestId('gpushare-state').dataset.tone).toBe('free');
    expect(screen.queryByTestId('gpushare-connection')).toBeNull();
  });
});

describe('a lease that asks nothing', () => {
  it('leaves the panel as it is, with a way to another share', () => {
    /* Where all is well, a broker shows only by what it allows. */
    show({});
    expect(box()).toBe('Active. train.ipynb is running a cell.');
    expect(words('gpushare-share')).toBe('½ GPU guaranteed, up to 1');
    fireEvent.click(screen.getByTestId('gpushare-change-share'));
    expect(actions.seen).toEqual(['request']);
  });

  it('is not needed', () => {
    /* Without a broker everything is as it was. */
    show({}, { lease: null });
    expect(screen.queryByTestId('gpushare-change-share')).toBeNull();
    expect(status()).toBe('GPU 7.4 / 20.0 GB');
  });
});
