import { act, cleanup, fireEvent, render, screen, within } from '@testing-library/react';
import * as React from 'react';

import { PanelView } from '../panel_view';
import { ReleaseForm } from '../release_form';
import { ReleaseWish } from '../release_flow';
import { RunningGpuKernels } from '../running';
import { StatusText } from '../status_item';
import { Snapshot } from '../wire';
import { FakeModel } from './fake_model';
import { SeenActions } from './seen_actions';
import { device, GB, kernel, message, reading, snapshot, terminal, trans } from './samples';

let model: FakeModel;
let actions: SeenActions;

beforeEach(() => {
  model = new FakeModel();
  actions = new SeenActions();
});

afterEach(cleanup);

function show(
  changes: Partial<Snapshot> | null = {},
  settings = { showHistory: false, showIdleNotebooks: false }
): void {
  model.say(changes, model.contact);
  render(<PanelView model={model} actions={actions} settings={settings} trans={trans} />);
}

function words(testId: string): string {
  return screen.getByTestId(testId).textContent ?? '';
}

describe('the panel', () => {
  it('says how much is held, of what, and what happens', () => {
    /* One glance answers the three questions. */
    show();
    expect(words('gpushare-memory')).toBe('7.4 GB');
    expect(words('gpushare-share')).toBe('½ GPU guaranteed, up to 1');
    expect(words('gpushare-compute')).toBe('compute 62 %');
    expect(words('gpushare-gauge')).toContain('37 %');
    expect(words('gpushare-state')).toContain('Active. train.ipynb is running a cell.');
  });

  it('says of how much, and marks the guarantee on the ring only where more may be used', () => {
    /* A mark at the end of the ring would mean nothing. */
    show();
    expect(words('gpushare-panel')).toContain('7.4 GB of 20.0 GB');
    expect(document.querySelector('.jp-gpushare-Gauge-tick')).not.toBeNull();
    cleanup();
    show({ share: { ...snapshot().share, limit: snapshot().share.request } });
    expect(document.querySelector('.jp-gpushare-Gauge-tick')).toBeNull();
  });

  it('names the driver behind the numbers, or says that there is none', () => {
    /* "simulated simulated" told nobody anything. */
    show();
    expect(words('gpushare-footer')).toBe('NVIDIA driver 570.1live');
    cleanup();
    show({ simulated: true });
    expect(words('gpushare-footer')).toBe('no real GPU is usedlive');
  });

  it('keeps a number on one line with its unit', () => {
    /* "6.9" at the end of a line and "GB" on the next is hard to read. */
    show({ state: message('HOLDING', '{memory} are held.', { memory: '6.9 GB' }) });
    expect(words('gpushare-state')).toContain('6.9\u00a0GB are held.');
  });

  it('follows the frames', () => {
    /* The panel is live without being touched. */
    show();
    act(() => {
      model.say({ memory: reading(9 * GB) });
    });
    expect(words('gpushare-memory')).toBe('9.0 GB');
  });

  it('shows – with the reason where a number is not available', () => {
    /* Never 0 for unknown. */
    show({ memory: reading(null, 'No process list.'), utilisation: reading(null, 'MIG') });
    expect(words('gpushare-memory')).toBe('–');
    expect(screen.getByTestId('gpushare-memory').title).toBe('No process list.');
    expect(words('gpushare-compute')).toBe('compute –');
    expect(screen.getByTestId('gpushare-gauge').getAttribute('aria-label')).toContain('not available');
  });

  it('dims the numbers and says so when the contact is lost', () => {
    /* Nothing stale looks live. */
    model.contact = 'lost';
    show();
    expect(screen.getByTestId('gpushare-panel').dataset.stale).toBe('true');
    expect(words('gpushare-state')).toContain('Lost contact with the server.');
    expect(words('gpushare-footer')).toContain('as of');
    fireEvent.click(screen.getByTestId('gpushare-retry'));
    expect(actions.seen).toEqual(['retry']);
  });

  it('says what to do on a server without the extension, and shows no numbers', () => {
    /* A front end alone must not pretend. */
    model.contact = 'no_extension';
    show();
    expect(screen.getByTestId('gpushare-state').dataset.state).toBe('NO_EXTENSION');
    expect(words('gpushare-state')).toContain('jupyter_gpushare');
    expect(screen.queryByTestId('gpushare-memory')).toBeNull();
  });

  it.each([
    ['NO_GPU', 'free'],
    ['NO_DRIVER', 'free'],
    ['DRIVER_LOST', 'trouble'],
    ['SHARE_DOES_NOT_FIT', 'trouble'],
    ['CANNOT_RELEASE', 'trouble'],
    ['RELEASING', 'changing'],
    ['ACTIVE', 'mine'],
    ['SOMETHING_NEW', 'free']
  ])('shows the state %s in the tone %s', (code, tone) => {
    /* A colour means one thing, and a state of a newer server still shows its sentence. */
    show({ state: message(code, 'This is how it is.') });
    expect(screen.getByTestId('gpushare-state').dataset.tone).toBe(tone);
    expect(words('gpushare-state')).toContain('This is how it is.');
  });

  it('has nothing but the sentence where there is no GPU', () => {
    /* An empty gauge and a Release button would be noise. */
    show({ devices: [], state: message('NO_GPU', 'No GPU here: none.') });
    expect(screen.queryByTestId('gpushare-release')).toBeNull();
    expect(screen.queryByTestId('gpushare-gauge')).toBeNull();
  });

  it('says when devices are simulated', () => {
    /* Nobody may take the demo's figures for real ones. */
    show({ simulated: true });
    expect(words('gpushare-simulated')).toBe('simulated devices');
  });

  it('is silent about numbers and speaks about states', () => {
    /* A screen reader must not read a figure every second. */
    show();
    act(() => {
      model.say({ state: message('ACTIVE', 'Active. 2 notebooks are running cells.') });
    });
    expect(words('gpushare-announcement')).toBe('Active. train.ipynb is running a cell.');
    act(() => {
      model.say({ state: message('HOLDING', 'No cell is running.') });
    });
    expect(words('gpushare-announcement')).toBe('No cell is running.');
  });

  it('goes on without a chart where its library cannot be had', async () => {
    /* A chunk that does not load must not take the panel with it. (Here there is no canvas, so it does not load.) */
    show({}, { showHistory: true, showIdleNotebooks: false });
    expect(await screen.findByText(/chart could not be loaded/, {}, { timeout: 20_000 })).toBeTruthy();
    expect(words('gpushare-memory')).toBe('7.4 GB');
  });
});

describe('Release', () => {
  it('is offered first when memory is held and no cell runs', () => {
    /* The likely button stands out. */
    show({ state: message('HOLDING', 'No cell is running.') });
    expect(screen.getByTestId('gpushare-release').dataset.primary).toBe('true');
    fireEvent.click(screen.getByTestId('gpushare-release'));
    expect(actions.seen).toEqual(['release']);
  });

  it.each<[string, Partial<Snapshot>]>([
    ['nothing is held', { memory: reading(0), kernels: [kernel({ memory: reading(0) })] }],
    ['a release is under way', { state: message('RELEASING', 'Ending…') }]
  ])('does nothing and says why while %s', (_, changes) => {
    /* A button that cannot work says so and stays reachable by keyboard. */
    show(changes);
    const button = screen.getByTestId('gpushare-release');
    fireEvent.click(button);
    expect(actions.seen).toEqual([]);
    expect(button.getAttribute('aria-disabled')).toBe('true');
    expect(button.title).not.toBe('');
  });
});

describe('the rows', () => {
  it('show each notebook with its own memory and compute', () => {
    /* Per notebook is what nobody else shows. */
    show({ kernels: [kernel({ busy_since: 1, running: 'fit()' })] });
    const row = screen.getByTestId('gpushare-kernel-row');
    expect(row.dataset.kernelId).toBe('kernel-1');
    expect(within(row).getByTestId('gpushare-row-memory').textContent).toBe('6.1 GB');
    expect(within(row).getByTestId('gpushare-row-compute').textContent).toBe('61 %');
    expect(within(row).getByLabelText('running')).toBeTruthy();
  });

  it('open their notebook and their menu', () => {
    /* Both by a real button, so that the keyboard reaches them. */
    show();
    fireEvent.click(screen.getByTestId('gpushare-open-notebook'));
    fireEvent.click(screen.getByTestId('gpushare-row-menu'));
    expect(actions.seen).toEqual(['open work/train.ipynb', 'menu kernel-1']);
  });

  it('count notebooks without GPU memory, or list them', () => {
    /* Ten idle notebooks must not hide the one that holds. */
    const kernels = [kernel(), kernel({ id: 'empty', memory: reading(0), path: 'b.ipynb' })];
    show({ kernels });
    expect(screen.getAllByTestId('gpushare-kernel-row')).toHaveLength(1);
    expect(words('gpushare-empty-kernels')).toBe('1 notebook holds no GPU memory.');
    cleanup();
    show({ kernels }, { showHistory: false, showIdleNotebooks: true });
    expect(screen.getAllByTestId('gpushare-kernel-row')).toHaveLength(2);
  });

  it('say how long a kernel that holds memory has been idle', () => {
    /* "0 %" does not tell a pause from an afternoon. */
    /* By the server's clock, of which a laptop's own is minutes off; and what is begun is not counted. */
    const since = snapshot().at - 419;
    show({ kernels: [kernel({ utilisation: reading(0), idle_since: since })] });
    expect(words('gpushare-row-compute')).toBe('idle 6 min');
  });

  it('carry what the server notes about a kernel', () => {
    /* Where something is missing, it is said on the spot. */
    show({ kernels: [kernel({ note: message('NOT_LOCAL', 'Runs on {host}.', { host: 'node7' }) })] });
    expect(words('gpushare-kernel-row')).toContain('Runs on node7.');
  });

  it('show terminals and programs that hold GPU memory', () => {
    /* What blocks a release outside notebooks must be visible. */
    show({ processes: [terminal()] });
    expect(words('gpushare-process-row')).toContain('Terminal 1: python');
    expect(words('gpushare-process-row')).toContain('terminal, process 4711');
  });

  it('do not interpret a name as markup', () => {
    /* Names come from files that anybody may have written. */
    show({ kernels: [kernel({ path: '<img src=x onerror=alert(1)>.ipynb' })] });
    expect(words('gpushare-open-notebook')).toBe('<img src=x onerror=alert(1)>.ipynb');
    expect(document.querySelector('img')).toBeNull();
  });
});

describe('the devices', () => {
  it('say in words what the bar shows', () => {
    /* Never colour alone. */
    show();
    const legend = words('gpushare-device');
    ['you 7.4 GB', 'kept for you 12.6 GB', 'others 12.0 GB', 'free 8.0 GB'].forEach(part => {
      expect(legend).toContain(part);
    });
    expect(words('gpushare-other-holders')).toContain('2 other processes');
  });

  it('do not call unknown use others', () => {
    /* In a pod without host pids nobody can say whose memory it is. */
    const dark = device({ mine: reading(null, 'other namespace'), others: reading(null) });
    show({ devices: [dark] });
    expect(words('gpushare-device')).toContain('in use, not known by whom 19.4 GB');
    expect(words('gpushare-device')).not.toContain('others');
  });

  it('outside the share are folded', () => {
    /* 64 devices stay readable. */
    const more = [1, 2, 3].map(index => device({ uuid: `GPU-${index}`, index }));
    show({ devices: [device(), ...more] });
    expect(words('gpushare-other-devices')).toContain('3 more GPUs, not in your share');
  });
});

describe('the release form', () => {
  function form(seen: Snapshot, kernelId: string | null = null): (ReleaseWish | null)[] {
    const wishes: (ReleaseWish | null)[] = [];
    render(
      <ReleaseForm
        snapshot={seen}
        kernelId={kernelId}
        refusal=""
        onChange={wish => wishes.push(wish)}
        trans={trans}
      />
    );
    return wishes;
  }

  it('proposes the harmless choice', () => {
    /* Pressing Enter loses nothing. */
    const wishes = form(snapshot());
    expect(wishes).toEqual([{ level: 'free_cache', kernel_id: 'kernel-1' }]);
  });

  it('sends what is chosen', () => {
    /* The radio button and the request must agree; "all" names no kernel. */
    const wishes = form(snapshot());
    fireEvent.click(screen.getByTestId('gpushare-level-end_all'));
    expect(wishes[wishes.length - 1]).toEqual({ level: 'end_all', kernel_id: null });
  });

  it('falls back to what is possible when another kernel is chosen', () => {
    /* A choice that the new kernel does not offer must not be sent. */
    const foreign = kernel({ id: 'foreign', path: 'z.ipynb', levels: ['end_kernel'] });
    const wishes = form(snapshot({ kernels: [kernel(), foreign] }));
    fireEvent.change(screen.getByTestId('gpushare-release-kernel'), { target: { value: 'foreign' } });
    expect(wishes[wishes.length - 1]).toEqual({ level: 'end_kernel', kernel_id: 'foreign' });
    expect(screen.getByTestId<HTMLInputElement>('gpushare-level-free_cache').disabled).toBe(true);
  });
});

describe('the status item', () => {
  it('shows use and guarantee, and opens the panel', () => {
    /* The figure is there without the panel. */
    const open = jest.fn();
    render(<StatusText model={model} open={open} trans={trans} />);
    expect(words('gpushare-status')).toBe('GPU 7.4 / 20.0 GB');
    fireEvent.click(screen.getByTestId('gpushare-status'));
    expect(open).toHaveBeenCalledTimes(1);
  });

  it('shows no number that is not live', () => {
    /* Nothing stale in the corner of the eye either. */
    model.contact = 'lost';
    render(<StatusText model={model} open={jest.fn()} trans={trans} />);
    expect(words('gpushare-status')).toBe('GPU – / 20.0 GB');
  });

  it('is absent on a server without GPUs or without us', () => {
    /* No noise for those whom it does not concern. */
    model.contact = 'no_extension';
    render(<StatusText model={model} open={jest.fn()} trans={trans} />);
    expect(screen.queryByTestId('gpushare-status')).toBeNull();
  });
});

describe('the section in the Running panel', () => {
  const carried: unknown[] = [];

  function section(): RunningGpuKernels {
    const flow = { carryOut: (wish: unknown) => Promise.resolve(void carried.push(wish)) };
    return new RunningGpuKernels({ model, flow, openNotebook: jest.fn(), trans });
  }

  it('lists the kernels that hold GPU memory, with a number only while it is live', () => {
    /* The list is of GPU use, and as honest as the panel. */
    model.say({ kernels: [kernel(), kernel({ id: 'empty', memory: reading(0) })] });
    const [item, ...others] = section().running();
    expect(others).toEqual([]);
    expect(item?.label()).toBe('train.ipynb');
    expect(item?.detail?.()).toBe('6.1 GB');
    model.contact = 'lost';
    expect(item?.detail?.()).toBe('–');
  });

  it('shuts a kernel down by a release, which asks first', () => {
    /* There is one way to end a kernel for its GPU, and it announces the loss. */
    section().running()[0]?.shutdown?.();
    section().shutdownAll();
    expect(carried).toEqual([
      { level: 'end_kernel', kernel_id: 'kernel-1' },
      { level: 'end_all', kernel_id: null }
    ]);
  });
});
