import { KernelAPI, ServerConnection, SessionAPI } from '@jupyterlab/services';

import { ShutdownGuard } from '../shutdown_guard';
import { Kernel } from '../wire';
import { FakeModel } from './fake_model';
import { kernel, parked, trans } from './samples';

const SESSIONS: Record<string, string> = { 'session-1': 'kernel-1', 'session-2': 'kernel-2' };

/** A user who answers as the test says, and remembers what was asked. */
class FakeUser {
  readonly asked: string[][] = [];
  isSure = false;

  confirmEnd(kernels: readonly Kernel[]): Promise<boolean> {
    this.asked.push(kernels.map(({ id }) => id));
    return Promise.resolve(this.isSure);
  }
}

let model: FakeModel;
let user: FakeUser;
let ended: string[];
let guard: ShutdownGuard;
let settings: ServerConnection.ISettings;

beforeEach(() => {
  model = new FakeModel();
  user = new FakeUser();
  ended = [];
  settings = ServerConnection.makeSettings({
    baseUrl: 'http://hub.test/user/ada/',
    fetch: input => {
      const { method, url } = input as Request;
      ended.push(`${method} ${new URL(url).pathname.slice('/user/ada/'.length)}`);
      return Promise.resolve(
        new Response(method === 'DELETE' ? null : '[]', { status: method === 'DELETE' ? 204 : 200 })
      );
    }
  });
  const kernelOf = (sessionId: string): string | null => SESSIONS[sessionId] ?? null;
  guard = new ShutdownGuard({ model, dialogs: user, kernelOf, trans });
  guard.install(settings);
  model.say({ kernels: [parked(), kernel({ id: 'kernel-2' })] });
});

function shutDownServer(): Promise<Response> {
  return ServerConnection.makeRequest(`${settings.baseUrl}api/shutdown`, { method: 'POST' }, settings);
}

it('asks before a parked kernel is ended, and ends it only then', async () => {
  /* What is safe in host memory must not go by a stray click. */
  await expect(KernelAPI.shutdownKernel('kernel-1', settings)).rejects.toThrow('Nothing was ended');
  expect(ended).toEqual([]);
  user.isSure = true;
  await KernelAPI.shutdownKernel('kernel-1', settings);
  expect(ended).toEqual(['DELETE api/kernels/kernel-1']);
  expect(user.asked).toEqual([['kernel-1'], ['kernel-1']]);
});

it('asks before the session of a parked kernel is ended', async () => {
  /* Closing a notebook ends its session, not its kernel by name. */
  await expect(SessionAPI.shutdownSession('session-1', settings)).rejects.toThrow('Nothing was ended');
  expect(user.asked).toEqual([['kernel-1']]);
});

it('does not ask for what is not parked, and lets everything else pass', async () => {
  /* Nobody is asked twice for what Lab has asked already. */
  await KernelAPI.shutdownKernel('kernel-2', settings);
  await SessionAPI.shutdownSession('session-2', settings);
  await KernelAPI.interruptKernel('kernel-1', settings).catch(() => undefined);
  expect(user.asked).toEqual([]);
  expect(ended).toEqual([
    'DELETE api/kernels/kernel-2',
    'DELETE api/sessions/session-2',
    'POST api/kernels/kernel-1/interrupt'
  ]);
});

it('asks once when everything is shut down, and then ends all or nothing', async () => {
  /* Ten dialogs for ten notebooks are no question, and half of a "no" is a loss. */
  const all = (): Promise<unknown> =>
    Promise.all(Object.keys(SESSIONS).map(id => SessionAPI.shutdownSession(id, settings)));
  await expect(all()).rejects.toThrow('Nothing was ended');
  expect(user.asked).toEqual([['kernel-1']]);
  expect(ended).toEqual([]);
  user.isSure = true;
  await all();
  expect(ended).toHaveLength(2);
});

it('does not let the server end after a "no" to its kernels', async () => {
  /* Lab goes on to end the server whatever became of the kernels: the one answer stands for both. */
  await expect(SessionAPI.shutdownSession('session-1', settings)).rejects.toThrow();
  await expect(shutDownServer()).rejects.toThrow('Nothing was ended');
  expect(user.asked).toHaveLength(1);
  expect(ended).toEqual([]);
});

it('asks before the server ends, whatever else is parked', async () => {
  /* Parked kernels end with their server. */
  user.isSure = true;
  await shutDownServer();
  expect(user.asked).toEqual([['kernel-1']]);
  expect(ended).toEqual(['POST api/shutdown']);
});

it('looks anew where nothing was watched', async () => {
  /* With the panel closed the last frame may be hours old. */
  model.contact = 'connecting';
  await expect(KernelAPI.shutdownKernel('kernel-1', settings)).rejects.toThrow();
  expect(model.refreshes).toBe(1);
});

it('asks before a document lets go of its parked kernel, and only once', async () => {
  /* Lab's own marks the kernel as gone before the server has answered, and then cannot find it again. */
  const letGo: string[] = [];
  const shutdown = async (): Promise<void> => {
    letGo.push('kernel-1');
    await SessionAPI.shutdownSession('session-1', settings);
  };
  const notebook = { session: { kernel: { id: 'kernel-1' } }, shutdown };
  guard.cover(notebook);
  guard.cover(notebook);
  await expect(notebook.shutdown()).rejects.toThrow('Nothing was ended');
  expect(letGo).toEqual([]);
  user.isSure = true;
  await notebook.shutdown();
  expect(ended).toEqual(['DELETE api/sessions/session-1']);
  expect(user.asked).toHaveLength(2);
});
