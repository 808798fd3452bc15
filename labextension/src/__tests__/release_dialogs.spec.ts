import { Notification } from '@jupyterlab/apputils';
import { waitFor } from '@testing-library/dom';

import { LabReleaseDialogs } from '../release_dialogs';
import { kernel, snapshot, trans } from './samples';

const dialogs = new LabReleaseDialogs(trans);

afterEach(() => {
  Notification.manager.dismiss();
});

function find(selector: string): Promise<HTMLElement> {
  return waitFor(() => {
    const found = document.querySelector<HTMLElement>(selector);
    if (!found) {
      throw new Error(`${selector} is not there yet`);
    }
    return found;
  });
}

describe('the choice', () => {
  it('gives what was chosen when it is accepted', async () => {
    /* What the radio buttons show is what is asked of the server. */
    const wish = dialogs.choose(snapshot(), null, '');
    (await find('[data-testid="gpushare-level-end_all"]')).click();
    (await find('.jp-gpushare-accept')).click();
    expect(await wish).toEqual({ level: 'end_all', kernel_id: null });
  });

  it('gives nothing when it is cancelled', async () => {
    /* Thinking better of it costs nothing. */
    const wish = dialogs.choose(snapshot(), null, '');
    await find('[data-testid="gpushare-level-end_all"]');
    (await find('.jp-mod-reject')).click();
    expect(await wish).toBeNull();
  });

  it('is about the kernel whose row asked', async () => {
    /* Not about the one that happens to hold most. */
    const small = kernel({ id: 'small', memory: { value: 1e9, attribution: 'exact', reason: '' } });
    const wish = dialogs.choose(snapshot({ kernels: [kernel(), small] }), 'small', '');
    await find('[data-testid="gpushare-level-free_cache"]');
    (await find('.jp-gpushare-accept')).click();
    expect(await wish).toEqual({ level: 'free_cache', kernel_id: 'small' });
  });

  it('is reached by Tab again from its last button', async () => {
    /* Lab's dialog goes round among the controls that it found; ours are drawn after it looked. */
    const wish = dialogs.choose(snapshot(), null, '');
    const first = await find('[data-testid="gpushare-release-kernel"]');
    const last = await find('.jp-gpushare-accept');
    last.focus();
    last.dispatchEvent(new KeyboardEvent('keydown', { key: 'Tab', keyCode: 9, bubbles: true }));
    expect(document.activeElement).toBe(first);
    (await find('.jp-mod-reject')).click();
    await wish;
  });
});

describe('the confirmation', () => {
  it.each([
    ['free_cache', 'A cell is running'],
    ['end_kernel', 'End this kernel?'],
    ['end_all', 'End all GPU kernels?']
  ])("puts the server's announcement of %s under its own question", async (level, question) => {
    /* The question names what happens, and the words on the loss are the server's. */
    const sure = dialogs.confirm(
      'Every variable of a.ipynb will be lost.',
      { level, kernel_id: null },
      false
    );
    await waitFor(() => {
      expect(document.querySelector('.jp-Dialog-header')?.textContent).toBe(question);
      expect(document.querySelector('.jp-Dialog-body')?.textContent).toContain('Every variable of a.ipynb');
    });
    (await find('.jp-gpushare-confirm')).click();
    expect(await sure).toBe(true);
  });

  it('says why it is asked again', async () => {
    /* The same question twice looks like a button that does not work. */
    const sure = dialogs.confirm('b.ipynb is running.', { level: 'end_all', kernel_id: null }, true);
    await waitFor(() => {
      const said = document.querySelector('.jp-Dialog-body')?.textContent;
      expect(said).toMatch(/^Things have changed.* nothing has been done yet\. b\.ipynb is running\.$/);
    });
    (await find('.jp-mod-reject')).click();
    expect(await sure).toBe(false);
  });

  it('ends nothing on Enter alone', async () => {
    /* The button with the focus is the one that loses nothing. */
    const sure = dialogs.confirm('Lost.', { level: 'end_all', kernel_id: null }, false);
    const cancel = await find('.jp-mod-reject');
    await waitFor(() => {
      expect(document.activeElement).toBe(cancel);
    });
    cancel.click();
    expect(await sure).toBe(false);
  });
});

describe('the notification', () => {
  it('of a success goes by itself, of a failure stays', () => {
    /* What did not work must not be missed. */
    dialogs.tell('4.7 GB given back.', true);
    dialogs.tell('Nothing fell.', false);
    const told = Notification.manager.notifications.map(({ message, type, options }) => ({
      message,
      type,
      stays: options.autoClose === false
    }));
    expect(told).toContainEqual({ message: '4.7 GB given back.', type: 'success', stays: false });
    expect(told).toContainEqual({ message: 'Nothing fell.', type: 'warning', stays: true });
  });
});
