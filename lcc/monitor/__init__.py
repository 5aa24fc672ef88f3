"""What operators are shown: the words of ``lcc-admin status`` and ``why``, and the web monitor (``lcc-web``)."""
