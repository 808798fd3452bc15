import { TranslationBundle } from '@jupyterlab/translation';
import { MenuSvg } from '@jupyterlab/ui-components';
import { CommandRegistry } from '@lumino/commands';
import { Menu } from '@lumino/widgets';

import { CommandIDs } from './command_ids';
import { idleChoices, keepChoices } from './keep_choices';
import { canPark, isAway } from './parking_view';
import { Kernel } from './wire';

/** Open *menu* under *anchor*, for once. Whatever had the focus gets it back when the menu closes. */
export function openOnce(menu: Menu, anchor: DOMRect): void {
  const opener = document.activeElement;
  menu.aboutToClose.connect(() => {
    if (opener instanceof HTMLElement) {
      opener.focus();
    }
    // The chosen command still runs after this signal: let it.
    requestAnimationFrame(() => {
      menu.items.forEach(({ submenu }) => submenu?.dispose());
      menu.dispose();
    });
  });
  menu.open(anchor.left, anchor.bottom, { horizontalAlignment: 'left' });
}

/** For how long to keep one kernel, or all; *isKept* offers to stop. */
export function keepMenu(
  commands: CommandRegistry,
  trans: TranslationBundle,
  isKept: boolean,
  kernelId: string | null = null
): Menu {
  const menu = new MenuSvg({ commands });
  menu.addClass('jp-gpushare-KeepMenu');
  menu.title.label = trans.__('Keep for');
  keepChoices(new Date(), trans).forEach(({ label, seconds }) => {
    menu.addItem({ command: CommandIDs.keep, args: { seconds, kernelId, label } });
  });
  if (isKept) {
    menu.addItem({ type: 'separator' });
    const label = trans.__('Stop keeping');
    menu.addItem({ command: CommandIDs.keep, args: { seconds: 0, kernelId, label } });
  }
  return menu;
}

/** What can be done with one row; of parking only what this server and this kernel know. */
export function rowMenu(commands: CommandRegistry, kernel: Kernel, trans: TranslationBundle): Menu {
  const menu = new MenuSvg({ commands });
  const kernelId = kernel.id;
  menu.addClass('jp-gpushare-RowMenu');
  if (kernel.path !== null) {
    menu.addItem({ command: CommandIDs.openNotebook, args: { path: kernel.path } });
  }
  if (canPark(kernel)) {
    menu.addItem({ command: CommandIDs.park, args: { kernelId, label: trans.__('Park') } });
  }
  if (isAway(kernel)) {
    menu.addItem({ command: CommandIDs.resume, args: { kernelId, label: trans.__('Resume') } });
  }
  if (kernel.parking) {
    addPolicy(menu, commands, kernel, trans);
  }
  menu.addItem({ command: CommandIDs.release, args: { kernelId, choose: true } });
  return menu;
}

function addPolicy(menu: Menu, commands: CommandRegistry, kernel: Kernel, trans: TranslationBundle): void {
  const isKept = kernel.parking?.kept_until !== null;
  menu.addItem({ type: 'submenu', submenu: keepMenu(commands, trans, isKept, kernel.id) });
  menu.addItem({ type: 'submenu', submenu: idleMenu(commands, kernel, trans) });
  allowances(kernel, trans).forEach(({ field, label, isAllowed }) => {
    const args = { kernelId: kernel.id, change: { [field]: !isAllowed }, label, isToggled: isAllowed };
    menu.addItem({ command: CommandIDs.policy, args });
  });
  menu.addItem({ command: CommandIDs.details, args: { kernelId: kernel.id } });
  menu.addItem({ type: 'separator' });
}

function idleMenu(commands: CommandRegistry, kernel: Kernel, trans: TranslationBundle): Menu {
  const menu = new MenuSvg({ commands });
  const policy = kernel.parking?.policy ?? null;
  menu.addClass('jp-gpushare-IdleMenu');
  menu.title.label = trans.__('Park by Itself after');
  idleChoices(trans).forEach(({ label, seconds }) => {
    const isToggled = policy !== null && policy.idle_timeout_s === seconds;
    const args = { kernelId: kernel.id, change: { idle_timeout_s: seconds }, label, isToggled };
    menu.addItem({ command: CommandIDs.policy, args });
  });
  menu.addItem({ type: 'separator' });
  const label = trans.__('As configured');
  const args = { kernelId: kernel.id, change: { reset: true }, label, isToggled: policy?.source !== 'owner' };
  menu.addItem({ command: CommandIDs.policy, args });
  return menu;
}

interface IAllowance {
  field: 'allow_background_work' | 'allow_foreign';
  label: string;
  isAllowed: boolean;
}

/** What the owner may allow: other people's programs only where they are what stands in the way. */
function allowances({ parking }: Kernel, trans: TranslationBundle): IAllowance[] {
  const background = parking?.policy?.allow_background_work ?? false;
  const foreign = parking?.policy?.allow_foreign ?? false;
  const isForeignInTheWay = parking?.refusal?.code === 'FOREIGN_PROCESSES';
  const label = trans.__('Park despite Other Programs on the GPU');
  return [
    {
      field: 'allow_background_work',
      label: trans.__('Park despite Background Work'),
      isAllowed: background
    },
    ...(foreign || isForeignInTheWay ? [{ field: 'allow_foreign' as const, label, isAllowed: foreign }] : [])
  ];
}
