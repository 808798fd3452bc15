import { IParkingDialogs, ParkingFlow } from '../parking_flow';
import { IReleaseDialogs, ReleaseFlow, ReleaseWish } from '../release_flow';
import { NetworkError, ResponseError } from '../request';
import { FakeModel } from './fake_model';
import { kernel, message, parkable, parked, reading, release, trans } from './samples';

const CANNOT = message('CANNOT_PARK', 'Cannot park: {reason}', { reason: 'A thread is alive.' });

/** A user who chooses nothing in the dialog, and agrees or not as the test says. */
class FakeUser implements IReleaseDialogs, IParkingDialogs {
  readonly chooses: [string | null, string][] = [];
  readonly told: [string, boolean][] = [];
  isSure = true;

  choose(_: unknown, kernelId: string | null, refusal: string): Promise<ReleaseWish | null> {
    this.chooses.push([kernelId, refusal]);
    return Promise.resolve(null);
  }

  confirm(): Promise<boolean> {
    return Promise.resolve(this.isSure);
  }

  confirmBackgroundWork(): Promise<boolean> {
    return Promise.resolve(this.isSure);
  }

  tell(text: string, hasWorked: boolean): void {
    this.told.push([text, hasWorked]);
  }
}

let model: FakeModel;
let user: FakeUser;
let interrupted: string[];
let flow: ReleaseFlow;
let parking: ParkingFlow;

beforeEach(() => {
  model = new FakeModel();
  user = new FakeUser();
  interrupted = [];
  flow = new ReleaseFlow(model, user, trans);
  parking = new ParkingFlow(model, user, id => Promise.resolve(void interrupted.push(id)), trans);
});

describe('Release', () => {
  const ENDED = release({ level: 'park', status: 'released', message: message('PARKED', 'Parked.') });

  it('parks at once where every kernel can be parked', async () => {
    /* Nothing is lost by it, so nothing is asked. */
    model.say({ kernels: [parkable(), parked({}, { id: 'b' }), kernel({ id: 'c', memory: reading(0) })] });
    model.answers = [ENDED];
    await flow.begin();
    expect(model.requests).toEqual([{ level: 'park', kernel_id: null, when: 'now', confirm: '' }]);
    expect(user.chooses).toEqual([]);
    expect(user.told).toEqual([['Parked.', true]]);
  });

  it('waits for a running cell instead of refusing', async () => {
    /* Who presses it while a cell runs means "when it is through". */
    const refusal = message('CELL_RUNNING', 'A cell is running.');
    model.say({ kernels: [parkable({ refusal }, { busy_since: 1 })] });
    model.answers = [ENDED];
    await flow.begin();
    expect(model.requests[0]?.when).toBe('idle');
  });

  it('explains a refusal that is known beforehand, and offers the other ways', async () => {
    /* A press that can only fail would waste the user's time. */
    const refusal = message('UVM', 'It uses managed memory.');
    model.say({ kernels: [parkable(), parkable({ refusal }, { id: 'uvm' })] });
    await flow.begin();
    expect(model.requests).toEqual([]);
    expect(user.chooses).toEqual([['uvm', 'Cannot park: It uses managed memory.']]);
  });

  it('explains a refusal of the server, and offers the other ways', async () => {
    /* The last word is the server's: it examines the kernel again. */
    model.say({ kernels: [parkable()] });
    model.answers = [new ResponseError(409, CANNOT, '')];
    await flow.begin('kernel-1');
    expect(user.chooses).toEqual([['kernel-1', 'Cannot park: A thread is alive.']]);
    expect(model.watchers).toBe(0);
  });

  it('explains a parking that failed on its way', async () => {
    /* What was undone is said, with what else can be done. */
    model.say({ kernels: [parkable()] });
    model.answers = [release({ level: 'park', status: 'failed', message: CANNOT })];
    await flow.begin();
    expect(user.chooses).toEqual([[null, 'Cannot park: A thread is alive.']]);
  });

  it('opens no dialog for a parking that failed after a wait for a cell', async () => {
    /* An hour later nobody expects one over their work. */
    model.say({ kernels: [parkable({}, { busy_since: 1 })] });
    model.answers = [release({ level: 'park', status: 'failed', message: CANNOT })];
    await flow.begin();
    expect(user.chooses).toEqual([]);
    expect(user.told).toEqual([['Cannot park: A thread is alive.', false]]);
  });

  it('offers the choice where this server does not park', async () => {
    /* Without parking nothing has changed. */
    await flow.begin();
    expect(user.chooses).toEqual([[null, '']]);
  });

  it('tells a fault of the network as such', async () => {
    /* No contact is no refusal. */
    model.say({ kernels: [parkable()] });
    model.answers = [new NetworkError('away')];
    await flow.begin();
    expect(user.chooses).toEqual([]);
    expect(user.told).toEqual([['The release could not be carried out: away', false]]);
  });
});

describe('the other wishes', () => {
  it('resume what is parked, and say only what goes wrong', async () => {
    /* How it goes is shown; that it cannot be must be said. */
    await parking.resume('kernel-1');
    expect(model.wishes).toEqual([['resume', 'kernel-1']]);
    expect(user.told).toEqual([]);
    model.refusals = [new ResponseError(409, CANNOT, '')];
    await parking.resume(null);
    expect(user.told).toEqual([['Cannot park: A thread is alive.', false]]);
  });

  it('keep, and say where the admin allows less', async () => {
    /* Who asks for the night and gets an hour must know it now. */
    const until = Date.now() / 1000 + 3600;
    model.kept = { kept_until: until, message: message('KEPT', 'Kept for you.') };
    await parking.keep(3600, null);
    await parking.keep(36_000, 'kernel-1');
    expect(user.told[0]).toEqual(['Kept for you.', true]);
    expect(user.told[1]?.[0]).toMatch(/^Kept for you\. Your admin allows no longer than until \d\d:\d\d\.$/);
  });

  it('allow background work only after its meaning was agreed to', async () => {
    /* It can end a kernel, so it is no checkbox in passing. */
    user.isSure = false;
    await parking.setPolicy('kernel-1', { allow_background_work: true });
    expect(model.wishes).toEqual([]);
    user.isSure = true;
    await parking.setPolicy('kernel-1', { allow_background_work: true });
    expect(model.wishes).toEqual([['policy', 'kernel-1', { allow_background_work: true }]]);
  });

  it('ask nothing for a policy that risks nothing', async () => {
    /* "Never" is one click. */
    user.isSure = false;
    await parking.setPolicy('kernel-1', { idle_timeout_s: null });
    expect(model.wishes).toEqual([['policy', 'kernel-1', { idle_timeout_s: null }]]);
  });

  it('cancel the cells that wait, and interrupt nothing else', async () => {
    /* A neighbour that computes must not lose its cell. */
    const computing = parkable({}, { id: 'busy', busy_since: 1 });
    model.say({ kernels: [parked({ status: 'waiting', held: 1 }), parked({}, { id: 'calm' }), computing] });
    await parking.cancelCells();
    expect(interrupted).toEqual(['kernel-1']);
  });
});
