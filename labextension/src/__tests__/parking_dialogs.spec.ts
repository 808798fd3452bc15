import { waitFor } from '@testing-library/dom';
import { MessageLoop } from '@lumino/messaging';
import { Widget } from '@lumino/widgets';

import { ParkedBadge } from '../parked_badge';
import { LabParkingDialogs } from '../parking_dialogs';
import { FakeModel } from './fake_model';
import { GB, message, parkable, parked, reading, trans } from './samples';

const dialogs = new LabParkingDialogs(trans);

function find(selector: string): Promise<HTMLElement> {
  return waitFor(() => {
    const found = document.querySelector<HTMLElement>(selector);
    if (!found) {
      throw new Error(`${selector} is not there yet`);
    }
    return found;
  });
}

describe('the question before a parked kernel ends', () => {
  it('says what would be lost, and loses nothing on Enter alone', async () => {
    /* The button with the focus is the safe one. */
    const sure = dialogs.confirmEnd([parked(), parked({ memory: GB }, { id: 'b', path: 'b.ipynb' })]);
    const body = await find('.jp-Dialog-body');
    expect(body.textContent).toContain('7.1 GB of train.ipynb, b.ipynb are safe in host memory.');
    const cancel = await find('.jp-mod-reject');
    await waitFor(() => {
      expect(document.activeElement).toBe(cancel);
    });
    cancel.click();
    expect(await sure).toBe(false);
  });

  it('takes a yes for a yes', async () => {
    /* It is the owner's kernel. */
    const sure = dialogs.confirmEnd([parked()]);
    (await find('.jp-gpushare-confirm')).click();
    expect(await sure).toBe(true);
  });
});

describe('the badge in the toolbar', () => {
  it('says that this notebook is parked, and resumes it', async () => {
    /* Who types into a parked notebook sees it before running a cell. */
    const model = new FakeModel();
    const said = message('PARKED', '{memory} safe in host memory.', { memory: '6.1 GB' });
    const resumed: string[] = [];
    const context = { sessionContext: { session: { kernel: { id: 'kernel-1' } } } };
    const notebook = Object.assign(new Widget(), context);
    const badge = new ParkedBadge(model, notebook, id => resumed.push(id), trans);
    Widget.attach(badge, document.body);
    MessageLoop.flush();
    expect(model.watchers).toBe(1);
    model.say({ memory: reading(0), kernels: [parked({ message: said })] });
    const button = await find('[data-testid="gpushare-parked-badge"]');
    expect(button.title).toBe('6.1 GB safe in host memory.\nClick to resume now.');
    button.click();
    expect(resumed).toEqual(['kernel-1']);
    model.say({ kernels: [parkable()] });
    await waitFor(() => {
      expect(document.querySelector('[data-testid="gpushare-parked-badge"]')).toBeNull();
    });
    badge.dispose();
    expect(model.watchers).toBe(0);
  });
});
