import { CommandRegistry } from '@lumino/commands';
import { JupyterFrontEnd } from '@jupyterlab/application';
import { cleanup, render, screen } from '@testing-library/react';
import * as React from 'react';

import { CommandIDs } from '../command_ids';
import { ParkingDetails } from '../parking_details';
import { addShareCommands } from '../share_commands';
import { ShareFlow } from '../share_flow';
import { FakeModel } from './fake_model';
import { BORROWER, lease, message, trans } from './samples';

let model: FakeModel;

beforeEach(() => {
  model = new FakeModel();
});

afterEach(cleanup);

function show(kernelId: string | null = null): string {
  render(<ParkingDetails model={model} kernelId={kernelId} trans={trans} />);
  return screen.queryByTestId('gpushare-lease-details')?.textContent ?? '';
}

describe('the details of the share', () => {
  it('say where one stands, and since when', () => {
    /* Who wants to know more than one sentence finds it in one place. */
    const said = message('LEASE_WAITING', 'Waiting: {place} in line.', { place: '2nd' });
    model.say({ lease: lease({ status: 'queued', place: 2, estimate_s: 1e6, message: said }) });
    expect(show()).toMatch(
      /Waiting: 2nd in line\.Share0\.5\.\.1Projectteam-aPlace2nd in lineStill waits.*Waits since\d\d:\d\d$/
    );
  });

  it('say who uses what is lent', () => {
    /* The same words as in the panel. */
    model.say({ lease: lease({ status: 'parked', lent_to: [BORROWER, { ...BORROWER, name: '' }] }) });
    expect(show()).toContain('resnet-sweep of vision (0.5 GPU), training of vision (0.5 GPU)');
  });

  it('say what the pool decides', () => {
    /* Nobody should look for it in a configuration of their own. */
    const said = message('SET_BY_POOL', 'Set by pool {pool}: {what}.', {
      pool: 'class',
      what: 'isolation caps'
    });
    model.say({ lease: lease({ policy: said }) });
    expect(show()).toContain('PoolSet by pool class: isolation caps.');
  });

  it('are not those of one notebook, and need a broker', () => {
    /* The share is the session's; without a broker there is nothing to say. */
    model.say({ lease: lease() });
    expect(show('kernel-1')).toBe('');
    cleanup();
    model.say({ lease: null });
    expect(show()).toBe('');
  });
});

describe('the command', () => {
  it('is there where a broker is, and works where a share can be asked for', async () => {
    /* An entry that can never work is not shown, and one that cannot now is greyed out. */
    const commands = new CommandRegistry();
    const texts: string[] = [];
    const dialogs = {
      write: (_: unknown, text: string): Promise<null> => {
        texts.push(text);
        return Promise.resolve(null);
      },
      tell: (): void => undefined
    };
    const app = { commands } as unknown as JupyterFrontEnd;
    addShareCommands(app, model, new ShareFlow(model, dialogs, trans), trans);
    const stands = (): boolean[] => [
      commands.isVisible(CommandIDs.request),
      commands.isEnabled(CommandIDs.request)
    ];
    expect(stands()).toEqual([false, false]);
    model.say({ lease: lease({ can_request: false }) });
    expect(stands()).toEqual([true, false]);
    model.say({ lease: lease() });
    expect(stands()).toEqual([true, true]);
    await commands.execute(CommandIDs.request);
    expect([model.refreshes, texts]).toEqual([1, ['0.5..1']]);
  });
});
