import { Dialog, Notification, showDialog } from '@jupyterlab/apputils';
import { TranslationBundle } from '@jupyterlab/translation';
import { ReactWidget } from '@jupyterlab/ui-components';
import * as React from 'react';

import { IReleaseDialogs, ReleaseWish } from './release_flow';
import type { ReleaseForm } from './release_form';
import { Snapshot } from './wire';

/** The dialogs and notifications of a release, in Lab's own manner. */
export class LabReleaseDialogs implements IReleaseDialogs {
  constructor(private readonly _trans: TranslationBundle) {}

  async choose(snapshot: Snapshot, kernelId: string | null, refusal: string): Promise<ReleaseWish | null> {
    const trans = this._trans;
    const { ReleaseForm } = await import('./release_form'); // not at start-up: most never release in a visit
    const { button, value } = await showDialog<ReleaseWish | null>({
      title: trans.__('Give GPU memory back'),
      body: new ReleaseBody({ Form: ReleaseForm, snapshot, kernelId, refusal }, trans),
      buttons: [
        Dialog.cancelButton({ label: trans.__('Cancel') }),
        Dialog.okButton({ label: trans.__('Release'), className: 'jp-gpushare-accept' })
      ]
    });
    return button.accept ? value : null;
  }

  async confirm(announcement: string, wish: ReleaseWish, hasChanged: boolean): Promise<boolean> {
    const trans = this._trans;
    const ends = !['free_cache', 'park'].includes(wish.level);
    const accept = ends
      ? Dialog.warnButton({ label: trans.__('End and give back'), className: 'jp-gpushare-confirm' })
      : Dialog.okButton({ label: trans.__('Free it now'), className: 'jp-gpushare-confirm' });
    const result = await showDialog({
      title: this._question(wish),
      body: hasChanged ? `${this._again()} ${announcement}` : announcement,
      buttons: [Dialog.cancelButton({ label: trans.__('Cancel') }), accept],
      defaultButton: 0
    });
    return result.button.accept;
  }

  tell(text: string, hasWorked: boolean): void {
    if (hasWorked) {
      Notification.success(text, { autoClose: 5000 });
    } else {
      Notification.warning(text, { autoClose: false });
    }
  }

  private _again(): string {
    return this._trans.__('Things have changed meanwhile, so nothing has been done yet.');
  }

  private _question({ level }: ReleaseWish): string {
    switch (level) {
      case 'free_cache':
      case 'park':
        return this._trans.__('A cell is running');
      case 'end_kernel':
        return this._trans.__('End this kernel?');
      default:
        return this._trans.__('End all GPU kernels?');
    }
  }
}

interface IReleaseAbout {
  Form: typeof ReleaseForm;
  snapshot: Snapshot;
  kernelId: string | null;
  refusal: string;
}

class ReleaseBody extends ReactWidget implements Dialog.IBodyWidget<ReleaseWish | null> {
  constructor(
    private readonly _about: IReleaseAbout,
    private readonly _trans: TranslationBundle
  ) {
    super();
    // Lab's dialog looks for its first control before React has drawn ours; without one, Tab never comes back here.
    this.node.tabIndex = -1;
    this.node.addEventListener('focus', () => {
      this.node.querySelector<HTMLElement>('select, input:checked')?.focus();
    });
  }

  getValue(): ReleaseWish | null {
    return this._wish;
  }

  protected override render(): React.JSX.Element {
    const { Form, snapshot, kernelId, refusal } = this._about;
    return (
      <Form
        snapshot={snapshot}
        kernelId={kernelId}
        refusal={refusal}
        trans={this._trans}
        onChange={wish => {
          this._wish = wish;
        }}
      />
    );
  }

  private _wish: ReleaseWish | null = null;
}
