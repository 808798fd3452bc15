import { Kernel } from './wire';

/** What the panel can have done; the plugins connect it to the application. */
export interface IPanelActions {
  /** Begin a release; *kernel* is chosen beforehand where it was asked for in that kernel's row. */
  release(kernel?: Kernel): void;
  /** Bring everything that is parked back. */
  resume(): void;
  /** Interrupt the kernels whose cells wait for their GPU state. */
  cancelCells(): void;
  /** Let the user choose for how long nothing is parked by itself, beside the button that *anchor* outlines. */
  openKeepMenu(anchor: DOMRect): void;
  /** Keep one kernel, or the whole server when null, from ending by itself for a while. */
  keepFromEnding(kernelId: string | null): void;
  showDetails(): void;
  /** Let the user ask the broker for another share. */
  changeShare(): void;
  openNotebook(path: string): void;
  /** Show the menu of one row, beside the button that *anchor* outlines. */
  openRowMenu(kernel: Kernel, anchor: DOMRect): void;
  openSettings(): void;
  retry(): void;
}
