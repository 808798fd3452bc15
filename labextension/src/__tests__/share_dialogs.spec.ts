import { Notification } from '@jupyterlab/apputils';
import { fireEvent, waitFor } from '@testing-library/dom';

import { LabShareDialogs } from '../share_dialogs';
import { snapshot, trans } from './samples';

afterEach(() => {
  Notification.manager.dismiss();
});

const dialogs = new LabShareDialogs(trans);

function find<T extends HTMLElement>(selector: string): Promise<T> {
  return waitFor(() => {
    const found = document.querySelector<T>(selector);
    if (!found) {
      throw new Error(`${selector} is not there yet`);
    }
    return found;
  });
}

it('gives what was written', async () => {
  /* What stands there is what is asked. */
  const wish = dialogs.write(snapshot(), '0.5..1', '');
  fireEvent.change(await find('[data-testid="gpushare-share-request"]'), { target: { value: '0.25' } });
  (await find('.jp-gpushare-accept')).click();
  expect(await wish).toBe('0.25..1');
});

it('gives what stood there at first on a quick Enter', async () => {
  /* An empty wish would be a refusal that nobody understands. */
  const wish = dialogs.write(snapshot(), '0.5..1', '');
  await find('[data-testid="gpushare-share-text"]');
  (await find('.jp-gpushare-accept')).click();
  expect(await wish).toBe('0.5..1');
});

it('gives nothing when it is cancelled, and is reached by Tab again from its last button', async () => {
  /* Lab's dialog goes round among the controls that it found; ours are drawn after it looked. */
  const wish = dialogs.write(snapshot(), '0.5', '');
  const first = await find('[data-testid="gpushare-share-request"]');
  const button = await find('.jp-gpushare-accept');
  button.focus();
  button.dispatchEvent(new KeyboardEvent('keydown', { key: 'Tab', keyCode: 9, bubbles: true }));
  expect(document.activeElement).toBe(first);
  (await find('.jp-mod-reject')).click();
  expect(await wish).toBeNull();
});

it('lets what is left to do stand, and what is done go', () => {
  /* A restart that is still to be made must not be missed. */
  dialogs.tell('Done.', true, false);
  dialogs.tell('Restart a.ipynb.', true, true);
  dialogs.tell('Cannot.', false, false);
  const told = Notification.manager.notifications.map(({ message, type, options }) => [
    message,
    type,
    options.autoClose === false
  ]);
  expect(told).toEqual(
    expect.arrayContaining([
      ['Done.', 'success', false],
      ['Restart a.ipynb.', 'info', true],
      ['Cannot.', 'warning', true]
    ])
  );
});
