"""``python -m jupyter_gpushare.app`` is ``jupyter gpushare``."""

from jupyter_gpushare.app import main

if __name__ == "__main__":
    main()
