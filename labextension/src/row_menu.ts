import { CommandRegistry } from '@lumino/commands';
import { Menu } from '@lumino/widgets';

import { CommandIDs } from './commands';
import { Kernel } from './wire';

/** Open the menu of one row under *anchor*. Whatever had the focus gets it back when the menu closes. */
export function openRowMenu(commands: CommandRegistry, kernel: Kernel, anchor: DOMRect): void {
  const menu = new Menu({ commands });
  const opener = document.activeElement;
  menu.addClass('jp-gpushare-RowMenu');
  if (kernel.path !== null) {
    menu.addItem({ command: CommandIDs.openNotebook, args: { path: kernel.path } });
  }
  menu.addItem({ command: CommandIDs.release, args: { kernelId: kernel.id } });
  menu.aboutToClose.connect(() => {
    if (opener instanceof HTMLElement) {
      opener.focus();
    }
    // The chosen command still runs after this signal: let it.
    requestAnimationFrame(() => {
      menu.dispose();
    });
  });
  menu.open(anchor.left, anchor.bottom, { horizontalAlignment: 'left' });
}
