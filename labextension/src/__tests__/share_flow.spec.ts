import { ResponseError } from '../request';
import { IShareDialogs, ShareFlow } from '../share_flow';
import { Snapshot } from '../wire';
import { FakeModel } from './fake_model';
import { lease, message, snapshot, trans } from './samples';

/** A user who writes one thing after the other, then gives up, and remembers what they were shown. */
class WritingUser implements IShareDialogs {
  readonly shown: [string, string][] = [];
  readonly told: [string, boolean, boolean][] = [];

  constructor(private readonly _writes: string[]) {}

  write(_: Snapshot, text: string, refusal: string): Promise<string | null> {
    this.shown.push([text, refusal]);
    return Promise.resolve(this._writes.shift() ?? null);
  }

  tell(text: string, hasWorked: boolean, needsRestart: boolean): void {
    this.told.push([text, hasWorked, needsRestart]);
  }
}

let model: FakeModel;

beforeEach(() => {
  model = new FakeModel();
  model.say({ lease: lease() });
});

async function begin(...writes: string[]): Promise<WritingUser> {
  const user = new WritingUser(writes);
  await new ShareFlow(model, user, trans).begin();
  return user;
}

it('begins with the share that there is, and says what became of the wish', async () => {
  /* Who changes one number need not remember the other. */
  const user = await begin('0.25..0.8');
  expect(user.shown).toEqual([['0.5..1', '']]);
  expect(model.wishes).toEqual([['request', '0.25..0.8']]);
  expect(user.told).toEqual([['Your share is 0.25..0.8 now.', true, false]]);
});

it('asks for nothing where the user thinks better of it', async () => {
  /* Cancel means cancel. */
  const user = await begin();
  expect([model.wishes, user.told]).toEqual([[], []]);
});

it("leads back to what was written with the broker's reason", async () => {
  /* A refusal that throws the wish away makes people write it twice. */
  const reason = message('WAITING_FOR_DEVICE', 'No GPU has {share} free.', { share: '0.8' });
  model.refusals = [new ResponseError(409, reason, '409')];
  const user = await begin('0.8', '0.6');
  expect(user.shown).toEqual([
    ['0.5..1', ''],
    ['0.8', 'No GPU has 0.8 free.']
  ]);
  expect(model.wishes).toEqual([
    ['request', '0.8'],
    ['request', '0.6']
  ]);
});

it('sends no nonsense, and says what would be right', async () => {
  /* The broker is not asked what everybody can see. */
  const user = await begin('a lot');
  expect(model.wishes).toEqual([]);
  expect(user.shown[1]).toEqual(['a lot', expect.stringContaining('0.5 or 16GiB')]);
});

it('says that nothing has changed where the server is away', async () => {
  /* A failure leaves no doubt about what holds. */
  model.refusals = [new Error('offline')];
  const user = await begin('0.8');
  expect(user.shown[1]?.[1]).toBe('That could not be asked for, and nothing has changed: offline');
});

it.each([
  ['Your share is now 0.8.', /^Your share is now 0\.8\. Restart train\.ipynb, eda\.ipynb when it suits you/],
  ['Restart train.ipynb, eda.ipynb.', /^Restart train\.ipynb, eda\.ipynb\.$/]
])('names the notebooks to restart once, after %p', async (said, expected) => {
  /* What is left to do must not vanish by itself, nor be said twice. */
  model.changedShare = {
    share: snapshot().share,
    message: message('SHARE_CHANGED', said),
    restart: ['train.ipynb', 'eda.ipynb']
  };
  const user = await begin('0.8');
  expect(user.told).toEqual([[expect.stringMatching(expected), true, true]]);
});

it.each([null, lease({ can_request: false })])('offers no dialog where the lease is %p', async held => {
  /* A wish that cannot be heard must not be asked for. */
  model.say({ lease: held });
  const user = await begin('0.8');
  expect([user.shown, model.wishes]).toEqual([[], []]);
  expect(user.told[0]?.[1]).toBe(false);
});
