import { GpuShareModel } from '../model';
import { FakeServer } from './fake_server';
import { lease, message, snapshot } from './samples';

let server: FakeServer;
let model: GpuShareModel;

beforeEach(() => {
  server = new FakeServer();
  model = new GpuShareModel({ serverSettings: server.settings });
});

afterEach(() => {
  model.dispose();
});

async function hear(body: unknown): Promise<void> {
  server.answers.set('session', { status: 200, body });
  await model.refresh();
}

it('asks for another share, and learns which notebooks must restart for it', async () => {
  /* The broker decides; what was written goes to it as it stands. */
  const { share } = snapshot();
  const said = message('SHARE_CHANGED', 'Done.');
  const body = { share, message: said, restart: ['work/train.ipynb'] };
  server.answers.set('request', { status: 200, body });
  expect((await model.requestShare('0.25..0.8')).restart).toEqual(['work/train.ipynb']);
  expect(server.asked.map(({ method, body: sent }) => [method, sent])).toEqual([
    ['POST', { share: '0.25..0.8' }]
  ]);
});

it('works with a server that knows no lease, and with one that says less of it', async () => {
  /* Parts of a hub are updated on another day than others. */
  await hear({ ...snapshot(), lease: undefined });
  expect([model.contact, model.snapshot?.lease]).toEqual(['live', null]);
  const parked = lease({ status: 'parked', place: 2 });
  await hear({ ...snapshot(), lease: { ...parked, lent_to: undefined, can_request: undefined } });
  expect(model.snapshot?.lease).toMatchObject({ place: 2, lent_to: [], can_request: false });
});

it('takes a status that only a newer server knows for one that asks nothing of anybody', async () => {
  /* The panel must not go dark for a new word. */
  await hear({ ...snapshot(), lease: { ...lease(), status: 'dreaming' } });
  expect([model.contact, model.snapshot?.lease?.status]).toEqual(['live', 'running']);
});

it.each([{ place: 'second' }, { lent_to: [{ project: 'a' }] }, { since: null }, { message: 'hello' }])(
  'does not take a lease with %p for one',
  async wrong => {
    /* Everything over a wire is untrusted: what cannot be read is not shown, and its place is named. */
    await hear({ ...snapshot(), lease: { ...lease(), ...wrong } });
    expect([model.contact, model.snapshot]).toEqual(['lost', null]);
    expect(model.trouble).toContain('.lease.');
  }
);
