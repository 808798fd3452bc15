import { Notification } from '@jupyterlab/apputils';

import { Heard } from '../heard';
import { Notices } from '../notices';
import { Notice } from '../wire';
import { FakeModel } from './fake_model';
import { message, parkable, release, trans } from './samples';

let model: FakeModel;
let notices: Notices;
let done: string[];
let inFront: string;

function notice(changes: Partial<Notice> = {}): Notice {
  const said = message('RESUMED', 'Resumed in {seconds} s.', { seconds: '2.1' });
  return { id: 'n1', at: Date.now() / 1000, kind: 'info', message: said, ...changes };
}

function listen(heard = new Heard(window.localStorage)): Notices {
  return new Notices({
    model,
    heard,
    isVisible: kernelId => kernelId === inFront,
    keep: (seconds, kernelId) => done.push(`keep ${seconds} ${kernelId}`),
    park: kernelId => done.push(`park ${kernelId}`),
    trans
  });
}

function told(): [string, string, number | false | undefined][] {
  return Notification.manager.notifications.map(({ type, message: text, options }) => [
    type,
    text,
    options.autoClose
  ]);
}

const COUNTING = parkable({ status: 'counting_down', parks_at: 1_700_000_300, since: 5 });

beforeEach(() => {
  window.localStorage.clear();
  model = new FakeModel();
  done = [];
  inFront = 'kernel-1';
  notices = listen();
});

afterEach(() => {
  notices.dispose();
  Notification.manager.dismiss();
});

it('tells a resume by the way, and a loss until it was read', () => {
  /* What was lost must not vanish while nobody looks; what went well may. */
  const lost = notice({ id: 'n2', kind: 'loss', message: message('LOST', 'It is lost.') });
  model.say({ notices: [notice(), lost] });
  expect(told()).toEqual(
    expect.arrayContaining([
      ['info', 'Resumed in 2.1 s.', 5000],
      ['error', 'It is lost.', false]
    ])
  );
});

it('tells each notice once in a browser', () => {
  /* Every frame carries it, and every tab and reload gets it again. */
  model.say({ notices: [notice()] });
  model.say({ notices: [notice()] });
  const afterReload = listen();
  model.say({ notices: [notice()] });
  afterReload.dispose();
  expect(told()).toHaveLength(1);
});

it('tells no old news but a loss', () => {
  /* A page that is opened in the evening need not hear of the morning. */
  const hourAgo = Date.now() / 1000 - 3600;
  model.say({ notices: [notice({ at: hourAgo }), notice({ id: 'n2', kind: 'loss', at: hourAgo })] });
  expect(told().map(([type]) => type)).toEqual(['error']);
});

it('leaves a refusal to the dialog of who asked', () => {
  /* The same reason in a dialog and beside it is noise. */
  const refused = notice({ kind: 'warning', message: message('CANNOT_PARK', 'Cannot park: busy.') });
  const failed = release({ level: 'park', status: 'failed', ended: Date.now() / 1000 });
  model.say({ notices: [refused], releases: [failed] });
  model.say({ notices: [{ ...refused, id: 'n2' }], releases: [] });
  expect(told()).toEqual([['warning', 'Cannot park: busy.', 10_000]]);
});

it('warns once of a countdown of the notebook that is seen, with the ways out', () => {
  /* The warning comes where the user looks, says that nothing is lost, and does not come back. */
  model.say({ kernels: [COUNTING] });
  model.say({ kernels: [COUNTING] });
  expect(told()).toHaveLength(1);
  expect(told()[0]?.[1]).toMatch(/^Nothing is lost: the GPU memory of train\.ipynb .* at \d\d:\d\d,/);
  const [keep, park] = Notification.manager.notifications[0]?.options.actions ?? [];
  keep?.callback(new MouseEvent('click'));
  park?.callback(new MouseEvent('click'));
  expect(done).toEqual(['keep 3600 kernel-1', 'park kernel-1']);
});

it('does not warn of a notebook that is not seen, nor where the user does not want it', () => {
  /* No spam. */
  inFront = 'another';
  model.say({ kernels: [COUNTING] });
  inFront = 'kernel-1';
  notices.warnsBeforeParking = false;
  model.say({ kernels: [COUNTING] });
  expect(told()).toEqual([]);
});

it('takes the warning back when the countdown is over, and warns of the next', () => {
  /* "Is parked at 14:32" must not stand there at 14:40. */
  model.say({ kernels: [COUNTING] });
  model.say({ kernels: [parkable()] });
  expect(told()).toEqual([]);
  model.say({ kernels: [parkable({ status: 'counting_down', parks_at: 1_700_009_000, since: 9 })] });
  expect(told()).toHaveLength(1);
});

it('says nothing from numbers that are not live', () => {
  /* What the server said before it fell silent may be over. */
  model.say({ kernels: [COUNTING], notices: [notice()] }, 'lost');
  expect(told()).toEqual([]);
});

it('survives a browser that stores nothing, or nonsense', () => {
  /* A private window still hears each notice once. */
  window.localStorage.setItem('jupyter-gpushare:heard', '{"a":');
  expect(new Heard(window.localStorage).has('n1')).toBe(false);
  const full = {
    getItem: () => null,
    setItem: () => {
      throw new Error('full');
    }
  };
  const heard = new Heard(full as unknown as Storage);
  heard.add('n1');
  expect([heard.has('n1'), new Heard(null).has('n1')]).toEqual([true, false]);
});
