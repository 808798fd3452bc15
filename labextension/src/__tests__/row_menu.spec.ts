import { CommandRegistry } from '@lumino/commands';
import { ReadonlyPartialJSONObject } from '@lumino/coreutils';

import { CommandIDs } from '../command_ids';
import { openOnce, rowMenu } from '../menus';
import { Kernel } from '../wire';
import { kernel, trans } from './samples';

const seen: [string, ReadonlyPartialJSONObject][] = [];
const commands = new CommandRegistry();
[CommandIDs.openNotebook, CommandIDs.release].forEach(id => {
  commands.addCommand(id, { label: id, execute: args => void seen.push([id, args]) });
});

let opener: HTMLButtonElement;

beforeEach(() => {
  seen.length = 0;
  opener = document.body.appendChild(document.createElement('button'));
  opener.focus();
});

afterEach(() => {
  document.body.textContent = '';
});

function open(row: Kernel): HTMLElement[] {
  openOnce(rowMenu(commands, row, trans), new DOMRect());
  return [...document.querySelectorAll<HTMLElement>('.jp-gpushare-RowMenu .lm-Menu-item')];
}

function press(code: string, keyCode: number): void {
  const menu = document.querySelector('.jp-gpushare-RowMenu');
  menu?.dispatchEvent(new KeyboardEvent('keydown', { code, key: code, keyCode, bubbles: true }));
}

it('offers to open the notebook, and to release for this kernel', () => {
  /* The row that was asked is the one that the dialog proposes. */
  const items = open(kernel());
  expect(items.map(item => item.dataset.command)).toEqual([CommandIDs.openNotebook, CommandIDs.release]);
  press('ArrowDown', 40);
  press('ArrowDown', 40);
  press('Enter', 13);
  expect(seen).toEqual([[CommandIDs.release, { kernelId: 'kernel-1', choose: true }]]);
});

it('does not offer to open what is no notebook', () => {
  /* A console's kernel has no path; an entry that cannot work would only mislead. */
  const items = open(kernel({ path: null }));
  expect(items.map(item => item.dataset.command)).toEqual([CommandIDs.release]);
});

it('gives the focus back when it closes', () => {
  /* Who works by keyboard goes on at the row, not at the top of the page. */
  open(kernel());
  press('Escape', 27);
  expect(document.querySelector('.jp-gpushare-RowMenu')).toBeNull();
  expect(document.activeElement).toBe(opener);
});
