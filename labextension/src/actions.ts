import { Kernel } from './wire';

/** What the panel can have done; the plugins connect it to the application. */
export interface IPanelActions {
  /** Begin a release; *kernel* is chosen beforehand where it was asked for in that kernel's row. */
  release(kernel?: Kernel): void;
  openNotebook(path: string): void;
  /** Show the menu of one row, beside the button that *anchor* outlines. */
  openRowMenu(kernel: Kernel, anchor: DOMRect): void;
  openSettings(): void;
  retry(): void;
}
