import { Notification } from '@jupyterlab/apputils';

import { Heard } from '../heard';
import { LeaseNotices } from '../lease_notices';
import { Lease } from '../wire';
import { FakeModel } from './fake_model';
import { lease, trans } from './samples';

let model: FakeModel;
let notices: LeaseNotices;

function listen(): LeaseNotices {
  return new LeaseNotices({ model, heard: new Heard(window.localStorage), trans });
}

function say(changes: Partial<Lease>): void {
  model.say({ lease: lease(changes) });
}

function told(): string[] {
  return Notification.manager.notifications.map(({ message }) => message);
}

const QUEUED: Partial<Lease> = { status: 'queued', place: 1, since: 5 };
const LEAVING: Partial<Lease> = { status: 'parked', began: 10, deadline: 40 };

beforeEach(() => {
  window.localStorage.clear();
  model = new FakeModel();
  notices = listen();
});

afterEach(() => {
  notices.dispose();
  Notification.manager.dismiss();
});

it('tells who waited that their share is there', () => {
  /* Who went on with something else comes back for it. */
  say(QUEUED);
  say({ status: 'granted' });
  say({});
  expect(told()).toEqual(['Your GPU share is there: ½ GPU guaranteed, up to 1.']);
});

it('tells that training has left', () => {
  /* The wait is over, and nothing was lost on either side. */
  say(LEAVING);
  say({ status: 'resuming' });
  say({});
  expect(told()).toEqual(['Training has saved its work and left: your GPU memory comes back.']);
});

it('tells of one wait one thing', () => {
  /* For a first grant, too, training may have to leave; there is no memory to come back then. */
  say({ ...LEAVING, ...QUEUED });
  say({});
  expect(told()).toEqual(['Your GPU share is there: ½ GPU guaranteed, up to 1.']);
});

it('tells nothing of a wait that ended otherwise', () => {
  /* A claim that was taken back, and a cell that was cancelled, are no success. */
  say(QUEUED);
  say({ status: 'ended' });
  say(LEAVING);
  say({ status: 'parked' });
  expect(told()).toEqual([]);
});

it('tells nothing to who did not wait', () => {
  /* A page that is opened while all is well stays quiet. */
  say({});
  model.say({ lease: null });
  say({});
  expect(told()).toEqual([]);
});

it('tells it once in a browser', () => {
  /* Two tabs hear the same frames. */
  const secondTab = listen();
  say(QUEUED);
  say({});
  secondTab.dispose();
  expect(told()).toHaveLength(1);
});

it('remembers the wait while nothing is heard', () => {
  /* The share may come while the connection is cut. */
  say(QUEUED);
  model.say({ lease: lease() }, 'lost');
  expect(told()).toEqual([]);
  say({});
  expect(told()).toHaveLength(1);
});
