import { IReleaseDialogs, ReleaseFlow, ReleaseWish } from '../release_flow';
import { obstacle, proposedKernel, releaseChoices } from '../release_choices';
import { NetworkError, ResponseError } from '../request';
import { FakeModel } from './fake_model';
import { GB, kernel, message, reading, release, snapshot, trans } from './samples';

const END: ReleaseWish = { level: 'end_kernel', kernel_id: 'kernel-1' };
const BUSY = message('KERNEL_BUSY', '{notebook} is running; every variable will be lost.', {
  notebook: 'a.ipynb'
});
const ENDED = release({
  status: 'released',
  message: message('ENDED', '{freed} given back.', { freed: '6.1 GB' })
});

/** A user who chooses and confirms as the test says. */
class FakeUser implements IReleaseDialogs {
  readonly announced: string[] = [];
  readonly changes: boolean[] = [];
  readonly told: [string, boolean][] = [];
  wish: ReleaseWish | null = END;
  isSure = true;

  choose(): Promise<ReleaseWish | null> {
    return Promise.resolve(this.wish);
  }

  confirm(announcement: string, _: ReleaseWish, hasChanged: boolean): Promise<boolean> {
    this.announced.push(announcement);
    this.changes.push(hasChanged);
    return Promise.resolve(this.isSure);
  }

  tell(text: string, hasWorked: boolean): void {
    this.told.push([text, hasWorked]);
  }
}

let model: FakeModel;
let user: FakeUser;
let flow: ReleaseFlow;

beforeEach(() => {
  model = new FakeModel();
  user = new FakeUser();
  flow = new ReleaseFlow(model, user, trans);
});

/** Until everything that is waiting has gone on. */
async function settled(): Promise<void> {
  await new Promise(resolve => setTimeout(resolve));
}

it("shows the server's announcement before anything is ended, and sends the confirmation after it", async () => {
  /* A loss is announced beforehand, in the server's words, and only then confirmed. */
  model.answers = [new ResponseError(409, BUSY, '', 'digest-1'), ENDED];
  await flow.carryOut(END);
  expect(user.announced).toEqual(['a.ipynb is running; every variable will be lost.']);
  expect(model.requests.map(({ confirm }) => confirm)).toEqual(['', 'digest-1']);
  expect(user.told).toEqual([['6.1 GB given back.', true]]);
});

it('asks again when things have changed since the user agreed', async () => {
  /* A cell that started meanwhile is not covered by the word given before it. */
  const more = message('KERNEL_BUSY', '{notebook} is running, too.', { notebook: 'b.ipynb' });
  model.answers = [
    new ResponseError(409, BUSY, '', 'digest-1'),
    new ResponseError(409, more, '', 'digest-2'),
    ENDED
  ];
  await flow.carryOut(END);
  expect(user.announced).toEqual([
    'a.ipynb is running; every variable will be lost.',
    'b.ipynb is running, too.'
  ]);
  expect(user.changes).toEqual([false, true]);
  expect(model.requests.map(({ confirm }) => confirm)).toEqual(['', 'digest-1', 'digest-2']);
  expect(user.told).toEqual([['6.1 GB given back.', true]]);
});

it('does not ask to agree to what it cannot show', async () => {
  /* Nobody confirms a loss that was not announced. */
  model.answers = [new ResponseError(409, null, '409 Conflict', 'digest-1')];
  await flow.carryOut(END);
  expect(model.requests).toHaveLength(1);
  expect(user.told).toEqual([['The release could not be carried out: 409 Conflict', false]]);
});

it('ends nothing when the user thinks better of it', async () => {
  /* Cancel means cancel. */
  model.answers = [new ResponseError(409, BUSY, '', 'digest-1')];
  user.isSure = false;
  await flow.carryOut(END);
  expect(model.requests).toHaveLength(1);
  expect(user.told).toEqual([]);
});

it('does not ask to confirm what cannot be done', async () => {
  /* A refusal with the same status is not an announcement: confirming it would be pointless. */
  const refusal = message('NOTHING_TO_END', 'Nothing holds GPU memory.');
  model.answers = [new ResponseError(409, refusal, '')];
  await flow.carryOut(END);
  expect(user.announced).toEqual([]);
  expect(user.told).toEqual([['Nothing holds GPU memory.', false]]);
});

it('says how a release ended when a frame says so, and keeps watching until then', async () => {
  /* The message is of the attested end, not of the accepted request, also where the panel was closed. */
  model.say({ releases: [release()] });
  const done = flow.carryOut({ level: 'free_cache', kernel_id: 'kernel-1' });
  await settled();
  expect(user.told).toEqual([]);
  expect(model.watchers).toBe(1);
  const failed = release({ status: 'failed', message: message('NOTHING_FELL', 'Nothing fell.') });
  model.say({ releases: [failed] });
  await done;
  expect(user.told).toEqual([['Nothing fell.', false]]);
  expect(model.watchers).toBe(0);
});

it('asks for a release that the frames do not have', async () => {
  /* A short list in the frames must not leave the user without an answer. */
  model.fetched = ENDED;
  await flow.carryOut(END);
  expect(user.told).toEqual([['6.1 GB given back.', true]]);
});

it('says so when a restarted server does not know the release any more', async () => {
  /* Waiting for ever for a server that forgot would hide the truth. */
  model.fetched = new ResponseError(404, message('UNKNOWN_RELEASE', 'This server knows no release r1.'), '');
  await flow.carryOut(END);
  expect(user.told).toEqual([['This server knows no release r1.', false]]);
});

it('waits while the contact is lost', async () => {
  /* Silence is not an end: the release goes on at the server. */
  model.fetched = new NetworkError('away');
  const done = flow.carryOut(END);
  await settled();
  model.say({}, 'lost');
  await settled();
  expect(user.told).toEqual([]);
  model.say({ releases: [ENDED] });
  await done;
  expect(user.told).toEqual([['6.1 GB given back.', true]]);
});

it('says why when the server cannot be reached', async () => {
  /* A press on Release always has an answer. */
  model.answers = [new NetworkError('Failed to fetch')];
  await flow.carryOut(END);
  expect(user.told).toEqual([['The release could not be carried out: Failed to fetch', false]]);
});

it('does nothing when nothing is chosen', async () => {
  /* Closing the dialog is not a choice. */
  user.wish = null;
  await flow.begin();
  expect(model.requests).toEqual([]);
});

describe('the choices', () => {
  const [freeCache, endKernel, endAll] = releaseChoices(snapshot(), trans);

  it('go from what costs nothing to what costs most', () => {
    /* The harmless one is first, and says that nothing is lost. */
    expect(releaseChoices(snapshot(), trans).map(({ level }) => level)).toEqual([
      'free_cache',
      'end_kernel',
      'end_all'
    ]);
    expect(freeCache?.loses).toContain('Nothing is lost');
    expect([endKernel, endAll].every(choice => choice?.endsKernels)).toBe(true);
  });

  it('that a kernel does not offer are refused with the reason', () => {
    /* A kernel of another provisioner cannot free its cache; people learn it before they press. */
    const foreign = kernel({ levels: ['end_kernel'] });
    expect(freeCache && obstacle(freeCache, foreign, trans)).toBe('Not possible for train.ipynb.');
    const noted = { ...foreign, note: message('NOT_LOADED', 'Its Python has no jupyter_gpushare.') };
    expect(freeCache && obstacle(freeCache, noted, trans)).toContain('Its Python has no jupyter_gpushare.');
    expect(endKernel && obstacle(endKernel, foreign, trans)).toBe('');
  });

  it('are about the kernel asked for, else the one that holds most', () => {
    /* The row's own menu must never release another notebook. */
    const small = kernel({ id: 'small', memory: reading(GB) });
    const large = kernel({ id: 'large', memory: reading(9 * GB) });
    const seen = snapshot({ kernels: [small, large] });
    expect(proposedKernel(seen, 'small')?.id).toBe('small');
    expect(proposedKernel(seen, null)?.id).toBe('large');
  });
});
